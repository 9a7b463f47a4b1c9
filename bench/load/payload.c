/* The payload of every message in the benchmark: a small order of 128 to 137 bytes (134.4 on average), compact. Customer, counts and
 * note come from the seeded generator; order number and time are patched per message, so that no two payloads are equal. */
#include "load.h"

static const char *const NOTES[] = {"leave it at the door", "ring the bell twice", "call before delivery", "signature is required",
                                    "gift, no invoice inside", "fragile, keep upright", "deliver after 6 pm", "pick-up at the counter"};
static const char *const CURRENCIES[] = {"EUR", "USD", "GBP", "CHF"};

void payload_build(Text *t, size_t *order, size_t *at) {
    uint64_t x = random_next(random_seeded);
    text_print(t, "{\"order\":\"");
    *order = t->len;
    text_print(t, "00000000\",\"customer\":\"c-%04d\",\"items\":%d,\"amount\":%d,\"currency\":\"%s\",\"at\":",
               (int)(x & 0xffff) % 10000, (int)(x >> 16 & 0xff) % 9 + 1, (int)(x >> 24 & 0xffffff) % 100000, CURRENCIES[x >> 48 & 3]);
    *at = t->len;
    text_print(t, "0000000000000000,\"note\":\"%s\"}", NOTES[x >> 50 & 7]);
}
