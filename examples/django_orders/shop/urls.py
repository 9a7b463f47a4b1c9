from django.urls import path

from .views import place

urlpatterns = [path("orders", place)]
