from django.conf import settings
from django.db import connections

from queend.client import App, Client

from .models import Order

queue = Client(settings.QUEEND_URL, deadline=2)
workers = App(settings.QUEEND_URL)


def push(order):
    """Stores the job of an order once, however often this is called."""
    queue.push("orders", {"id": order.id}, partition=order.customer, id=f"order-{order.id}")


@workers.worker("orders", group="invoices", concurrency=4)
def invoice(message):
    try:
        Order.objects.filter(id=message.data["id"]).update(invoiced=True)
    finally:
        connections.close_all()     # each call runs in a thread of its own, with a connection of its own
