"""Uses the client that openapi-python-client made, at the URL that is given. Prints what came of it."""
import json
import sys

from generated import Client
from generated.api.messages import ack_messages, pop_messages, push_messages, run_transaction
from generated.api.queues import configure_queue, get_queue, list_queues
from generated.models import (Ack, AckMessagesRequest, AckOperation, ConfigureQueueRequest,
                              ConfigureQueueRequestOptions, PushItem, PushMessagesRequest, PushOperation,
                              RunTransactionRequest)

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
configure_queue.sync(client=client, body=ConfigureQueueRequest(
    queue="orders", options=ConfigureQueueRequestOptions(lease_time=30)))
item = PushItem(queue="orders", payload={"n": 1}, transaction_id="order-1")
pushed = push_messages.sync(client=client, body=PushMessagesRequest(items=[item, item]))
popped = pop_messages.sync("orders", client=client, batch=10)
(message,) = popped.messages
(acknowledged,) = ack_messages.sync(client=client, body=AckMessagesRequest(acknowledgments=[Ack(
    transaction_id=message.transaction_id, partition_id=message.partition_id, lease_id=message.lease_id)]))
push_messages.sync(client=client, body=PushMessagesRequest(items=[PushItem(queue="orders", payload={"n": 2})]))
(message,) = pop_messages.sync("orders", client=client, batch=10).messages
transaction = run_transaction.sync(client=client, body=RunTransactionRequest(operations=[
    AckOperation(type_="ack", transaction_id=message.transaction_id, partition_id=message.partition_id,
                 lease_id=message.lease_id),
    PushOperation(type_="push", items=[PushItem(queue="bills", payload={"n": 2})])]))
queue = get_queue.sync("orders", client=client)
print(json.dumps({
    "pushed": [one.status for one in pushed], "popped": [one.data for one in popped.messages],
    "acknowledged": acknowledged.success, "transaction": transaction.success,
    "leaseTime": queue.options.lease_time.value, "completed": queue.totals.completed,
    "queues": sorted(one.name for one in list_queues.sync(client=client).queues)}))
