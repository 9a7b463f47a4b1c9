import os

SECRET_KEY = "for trying only"
DEBUG = True
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db",
                         "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"}}}
QUEEND_URL = os.environ.get("QUEEND_URL", "http://localhost:6632")
