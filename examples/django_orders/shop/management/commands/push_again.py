from django.core.management.base import BaseCommand

from shop.jobs import push
from shop.models import Order


class Command(BaseCommand):
    help = "Pushes the jobs of orders without an invoice, in case that a crash came between commit and push."

    def handle(self, **options):
        for order in Order.objects.filter(invoiced=False):
            push(order)
