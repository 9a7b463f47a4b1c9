#!/bin/sh
# Push, pop, extend the lease and acknowledge: plain HTTP.
set -eu
url=${QUEEND_URL:-http://localhost:6632}
queue=${1:-orders-by-curl}

ask() { # METHOD PATH [BODY]
    curl -sS --fail-with-body -X "$1" "$url$2" ${3:+-H 'Content-Type: application/json' -d "$3"}
}
field() { # NAME: the first value of that name in the JSON on standard input
    grep -oE "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d'"' -f4
}

# A partition stores an id once: a producer that does not know whether its push arrived repeats the push.
item="{\"queue\":\"$queue\",\"partition\":\"customer-7\",\"transactionId\":\"order-17\",\"payload\":{\"cents\":995}}"
echo "first push:  $(ask POST /api/v1/push "{\"items\":[$item]}" | field status)"
echo "second push: $(ask POST /api/v1/push "{\"items\":[$item]}" | field status)"

# The message is leased to this program: another consumer of the group gets it only if the lease ends.
message=$(ask GET "/api/v1/pop/queue/$queue?consumerGroup=billing&wait=true&timeout=10000")
lease=$(echo "$message" | field leaseId)
echo "popped:      $(echo "$message" | field transactionId)"

ask POST "/api/v1/lease/$lease/extend" '{"seconds":120}' >/dev/null
echo "extended:    120 s"

partition=$(echo "$message" | field partitionId)
ack="{\"transactionId\":\"order-17\",\"partitionId\":\"$partition\",\"leaseId\":\"$lease\",\"consumerGroup\":\"billing\"}"
ask POST /api/v1/ack "$ack" | grep -q '"success":true' && echo "acknowledged"
