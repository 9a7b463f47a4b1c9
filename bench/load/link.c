/* Bytes of a connection: plain, or through TLS if LOAD_CA in the environment names a file with the server's authorities. */
#include "load.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static SSL_CTX *context;

static void fail(const char *what) {
    fprintf(stderr, "load: %s: ", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

void link_prepare(void) {
    const char *authorities = getenv("LOAD_CA");
    if (!authorities) return;
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    context = SSL_CTX_new(TLS_client_method());
    if (!context || SSL_CTX_load_verify_locations(context, authorities, NULL) != 1) fail(authorities);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

/* The handshake, once the socket is connected. True when requests may be sent. */
bool link_ready(Conn *c) {
    if (!context) return true;
    if (!c->ssl) {
        c->ssl = SSL_new(context);
        if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1) fail("no memory for TLS");
        SSL_set_connect_state(c->ssl);
    }
    int done = SSL_do_handshake(c->ssl);
    if (done == 1) return true;
    int why = SSL_get_error(c->ssl, done);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) fail("handshake");
    return false;
}

/* As of send and recv. */
static ssize_t told(Conn *c, int done, size_t n) {
    if (done == 1) return (ssize_t)n;
    int why = SSL_get_error(c->ssl, done);
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
    return why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t link_send(Conn *c, const void *p, size_t n) {
    if (!c->ssl) return send(c->fd, p, n, MSG_NOSIGNAL);
    size_t sent = 0;
    int done = SSL_write_ex(c->ssl, p, n, &sent);
    return told(c, done, sent);
}

ssize_t link_receive(Conn *c, void *p, size_t n) {
    if (!c->ssl) return recv(c->fd, p, n, 0);
    size_t got = 0;
    int done = SSL_read_ex(c->ssl, p, n, &got);
    return told(c, done, got);
}

void link_close(Conn *c) {
    SSL_free(c->ssl);
    c->ssl = NULL;
    close(c->fd);
}
