import json

from django.db import transaction
from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt

from .jobs import push
from .models import Order


@csrf_exempt
def place(request):
    """Stores an order, and its job after the commit. The caller may repeat the request."""
    asked = json.loads(request.body)
    with transaction.atomic():
        order, _ = Order.objects.get_or_create(id=asked.pop("id"), defaults=asked)
        transaction.on_commit(lambda: push(order), robust=True)     # robust: if it fails, push_again does it
    return JsonResponse({"id": order.id}, status=201)
