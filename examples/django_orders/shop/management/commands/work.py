import sys

from django.core.management.base import BaseCommand

from shop.jobs import workers


class Command(BaseCommand):
    help = "Runs the workers until SIGTERM."

    def handle(self, **options):
        sys.exit(workers.run())
