/* A refusal with a formatted text: 400, which is what is wrong with a request as a rule. Always 0, so that callers can
 * return it. */
#ifndef QUEEND_ERROR_H
#define QUEEND_ERROR_H
#include <stdio.h>

#define ERROR_AS(e, ...) ((e)->status = 400, snprintf((e)->text, sizeof (e)->text - 1, __VA_ARGS__), 0)
#endif
