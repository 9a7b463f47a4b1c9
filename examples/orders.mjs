// A producer and a consumer by fetch: no packages, Node 18 or later (or a browser; then CORS_ORIGINS names the page).
const url = process.env.QUEEND_URL ?? "http://localhost:6632";
const queue = process.argv[2] ?? "orders-by-javascript";

async function ask(method, path, body) {
  const answer = await fetch(url + path, {
    method,
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? { messages: [] } : answer.json();
}

async function consume(count) {
  const seen = [];
  while (seen.length < count) {
    // Waits up to 10 s for messages of any partition. After an empty answer, pop again.
    const { messages } = await ask("GET", `/api/v1/pop/queue/${queue}?batch=10&wait=true&timeout=10000`);
    for (const one of messages) seen.push(`${one.partition}: ${one.data.order}`);
    if (messages.length) {
      const acknowledgments = messages.map(({ transactionId, partitionId, leaseId }) => (
        { transactionId, partitionId, leaseId, status: "completed" }));
      await ask("POST", "/api/v1/ack/batch", { acknowledgments });
    }
  }
  return seen;
}

const consumer = consume(3);
for (const [customer, order] of [["customer-7", 1], ["customer-8", 2], ["customer-7", 3]]) {
  await ask("POST", "/api/v1/push", { items: [{ queue, partition: customer, payload: { order } }] });
}
console.log((await consumer).sort().join("\n"));
