"""Uses the client that openapi-generator made, at the URL that is given. Prints what came of it."""
import json
import sys

from generated import (Ack, AckMessageRequest, AckMessagesRequest, AckOperation, ApiClient, Configuration,
                       ConfigureQueueRequest, ConfigureQueueRequestOptions, MessagesApi, Operation, PushItem,
                       PushMessagesRequest, PushOperation, QueuesApi, RunTransactionRequest)

with ApiClient(Configuration(host=sys.argv[1])) as client:
    messages, queues = MessagesApi(client), QueuesApi(client)
    queues.configure_queue(ConfigureQueueRequest(queue="orders", options=ConfigureQueueRequestOptions(leaseTime=30)))
    item = PushItem(queue="orders", payload={"n": 1}, transactionId="order-1")
    pushed = messages.push_messages(PushMessagesRequest(items=[item, item])).actual_instance
    popped = messages.pop_messages("orders", batch=10)
    (message,) = popped.messages
    ack = Ack(transactionId=message.transaction_id, partitionId=message.partition_id, leaseId=message.lease_id)
    (acknowledged,) = messages.ack_messages(AckMessagesRequest(
        acknowledgments=[AckMessageRequest(ack)]))
    messages.push_messages(PushMessagesRequest(items=[PushItem(queue="orders", payload={"n": 2})]))
    (message,) = messages.pop_messages("orders", batch=10).messages
    transaction = messages.run_transaction(RunTransactionRequest(operations=[
        Operation(AckOperation(type="ack", transactionId=message.transaction_id, partitionId=message.partition_id,
                               leaseId=message.lease_id)),
        Operation(PushOperation(type="push", items=[PushItem(queue="bills", payload={"n": 2})]))]))
    queue = queues.get_queue("orders")
    print(json.dumps({
        "pushed": [one.status for one in pushed], "popped": [one.data for one in popped.messages],
        "acknowledged": acknowledged.success, "transaction": transaction.success,
        "leaseTime": queue.options.lease_time.value, "completed": queue.totals.completed,
        "queues": sorted(one.name for one in queues.list_queues().queues)}))
