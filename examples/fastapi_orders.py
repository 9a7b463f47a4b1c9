"""Orders by FastAPI: requests push jobs, and workers in a process of their own write invoices and send mails. It
needs queend's extra `client` and uvicorn.

    uvicorn fastapi_orders:app
    queend worker fastapi_orders:workers

SHOP_DSN is the database of the application, with the tables of docs/web-app.md. It is the daemon's, too."""
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from psycopg.types.json import Json
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

from queend.client import App, AsyncClient, Context, TypedMessage, Unavailable

pool = AsyncConnectionPool(os.environ["SHOP_DSN"], open=False)
queue = AsyncClient(os.environ.get("QUEEND_URL", "http://localhost:6632"), deadline=5)


class Order(BaseModel):
    id: str
    customer: str
    cents: int


class Mail(BaseModel):
    to: str
    text: str


@asynccontextmanager
async def web(app: FastAPI) -> AsyncGenerator[None, None]:
    async with pool, queue:
        yield


app = FastAPI(lifespan=web)


@app.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, str]:
    """Stores the order and its job in one transaction: both or neither."""
    async with pool.connection() as database:
        await database.execute("INSERT INTO orders VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                               (order.id, order.customer, order.cents))
        await database.execute("SELECT queen.push('orders', %s, %s, %s)",
                               (order.customer, Json(order.model_dump()), f"order-{order.id}"))
    return {"id": order.id}


@app.post("/mails/{mail_id}", status_code=202)
async def write(mail_id: str, mail: Mail) -> dict[str, str]:
    """Stores a job without a transaction. The caller may repeat the request; the mail is stored once."""
    stored = await queue.push("mails", mail.model_dump(), partition=mail.to, id=mail_id)
    return {"status": stored.status}


@app.exception_handler(Unavailable)
async def unavailable(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503, {"Retry-After": "5"})


workers = App(lifespan=lambda: pool)


@workers.worker("orders", group="invoices", concurrency=4)
async def invoice(message: TypedMessage[Order], context: Context) -> None:
    order = message.payload
    async with pool.connection() as database:
        await database.execute("INSERT INTO invoices VALUES (%s, %s) ON CONFLICT DO NOTHING", (order.id, order.cents))
    context.push("mails", {"to": order.customer, "text": f"{order.cents} cents"}, partition=order.customer,
                 id=f"invoice-{order.id}")


@workers.worker("mails", group="sender", concurrency=4)
async def send(message: TypedMessage[Mail]) -> None:
    print(message.payload.to, message.payload.text, sep=": ", flush=True)
