-- Stores a message if its transaction commits, and only then. Run it in psql, on the daemon's database.
CREATE TEMPORARY TABLE orders (id int PRIMARY KEY, cents int);

BEGIN;
INSERT INTO orders VALUES (17, 995);
SELECT queen.push('orders-by-psql', 'customer-7', '{"order": 17}', 'order-17');
COMMIT;

BEGIN;
INSERT INTO orders VALUES (18, 100);
SELECT queen.push('orders-by-psql', 'customer-7', '{"order": 18}', 'order-18');
ROLLBACK;   -- no order, no message

-- Messages that wait for the daemon, which moves them into the queue within a second.
SELECT count(*) <= 1 AS at_most_one FROM queend.outbox;
