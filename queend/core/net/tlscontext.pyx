# The certificate and the rules of TLS, shared by all workers. In: texts in PEM format. Out: sessions for new
# connections. Owns the context; a session keeps the context it was made with, so a reload changes new connections only.
# Locks: tlscontext.lock guards the pointer; no other lock is taken under it.

cdef struct TlsContext:
    bint on                   # the port speaks TLS; written before the threads start
    SSL_CTX* current
    BIO_METHOD* method        # of the BIO between a session and the buffers of its worker (net/tls)
    uv_mutex_t lock
    int64_t told_us           # when a failed handshake was last logged (net/tls)
    int64_t not_told          # failed handshakes since

cdef TlsContext tlscontext

# Mozilla's list "intermediate", without the suites that need parameters for Diffie-Hellman. TLS 1.3 has its own suites.
cdef const char* TLSCONTEXT_CIPHERS = (
    b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    b"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305")
# No group is expensive: a client would choose ffdhe8192 to keep the loop busy. The first one needs OpenSSL 3.5.
cdef const char* TLSCONTEXT_GROUPS = b"X25519MLKEM768:X25519:P-256:P-384"
cdef const char* TLSCONTEXT_GROUPS_OLD = b"X25519:P-256:P-384"

cdef void tlscontext_open() noexcept nogil:
    memset(&tlscontext, 0, sizeof(TlsContext))
    uv_mutex_init(&tlscontext.lock)

cdef void tlscontext_close() noexcept nogil:
    SSL_CTX_free(tlscontext.current)
    BIO_meth_free(tlscontext.method)
    tlscontext.current = NULL
    tlscontext.on = False
    uv_mutex_destroy(&tlscontext.lock)

cdef SSL* tlscontext_session() noexcept nogil:
    # Returns a new session with the current certificate, NULL if memory ran out.
    cdef SSL_CTX* c
    cdef SSL* s
    uv_mutex_lock(&tlscontext.lock)
    c = tlscontext.current
    SSL_CTX_up_ref(c)
    uv_mutex_unlock(&tlscontext.lock)
    s = SSL_new(c)
    SSL_CTX_free(c)
    return s

cdef void tlscontext_put(SSL_CTX* c) noexcept nogil:
    # Uses the context, which it takes over, for new connections.
    cdef SSL_CTX* before
    uv_mutex_lock(&tlscontext.lock)
    before = tlscontext.current
    tlscontext.current = c
    uv_mutex_unlock(&tlscontext.lock)
    SSL_CTX_free(before)

# ---- from PEM to a context -------------------------------------------------------------------------------------------

cdef SSL_CTX* tlscontext_new(Slice certificate, Slice key, Slice authorities, bint required, char* reason,
                             size_t size) noexcept nogil:
    # Returns a context, or NULL with the reason. certificate: the server's, followed by those up to its authority.
    # authorities: of client certificates; clients are asked for one if there are any. required: refuses clients without
    # one.
    cdef const char* fault = NULL
    cdef const char* why
    cdef SSL_CTX* c
    ERR_clear_error()
    c = SSL_CTX_new(TLS_server_method())
    if c == NULL:
        fault = b"no memory for TLS"
    elif not tlscontext_rules(c):
        fault = b"OpenSSL lacks protocols or cipher suites"
    elif not tlscontext_certificates(c, certificate, False):
        fault = b"the certificate is not usable"
    elif not tlscontext_key(c, key):
        fault = b"the key is not usable"
    elif authorities.n and not tlscontext_certificates(c, authorities, True):
        fault = b"the certificates of client authorities are not usable"
    if fault != NULL:
        why = ERR_reason_error_string(ERR_peek_error())
        snprintf(reason, size, b"%s: %s" if why != NULL else b"%s", fault, why)
        ERR_clear_error()
        SSL_CTX_free(c)
        return NULL
    if authorities.n:
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER | (SSL_VERIFY_FAIL_IF_NO_PEER_CERT if required else 0), NULL)
        # a resumed session would be that of a certificate that has expired meanwhile
        SSL_CTX_set_options(c, SSL_OP_NO_TICKET)
        SSL_CTX_set_num_tickets(c, 0)
    return c

cdef bint tlscontext_rules(SSL_CTX* c) noexcept nogil:
    # Sets what holds for every certificate. Sessions are resumed by tickets, so the server keeps none; their key lives
    # as long as the context.
    if SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 or SSL_CTX_set_cipher_list(c, TLSCONTEXT_CIPHERS) != 1:
        return False
    if SSL_CTX_set1_groups_list(c, TLSCONTEXT_GROUPS) != 1:
        ERR_clear_error()
        if SSL_CTX_set1_groups_list(c, TLSCONTEXT_GROUPS_OLD) != 1:
            return False
    SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION)
    # an idle connection gives its buffers back; the server's chain is what its file has
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN)
    SSL_CTX_set_max_cert_list(c, TLS_MESSAGE_MOST)
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF)
    SSL_CTX_set_num_tickets(c, 1)
    SSL_CTX_set_alpn_select_cb(c, tlscontext_protocol, NULL)
    return SSL_CTX_set_session_id_context(c, <const unsigned char*>b"queend", 6) == 1

cdef int tlscontext_protocol(SSL* s, const unsigned char** out, unsigned char* n, const unsigned char* client,
                             unsigned int client_n, void* u) noexcept nogil:
    # Chooses HTTP/1.1 (ALPN). A client that offers other protocols only is refused (RFC 7301).
    if SSL_select_next_proto(<unsigned char**>out, n, <const unsigned char*>b"\x08http/1.1", 9, client,
                             client_n) == OPENSSL_NPN_NEGOTIATED:
        return SSL_TLSEXT_ERR_OK
    return SSL_TLSEXT_ERR_ALERT_FATAL

cdef int tlscontext_no_password(char* out, int room, int writes, void* u) noexcept nogil:
    return -1

cdef bint tlscontext_certificates(SSL_CTX* c, Slice text, bint trusted) noexcept nogil:
    # Takes the server's certificate and those up to its authority. trusted: takes authorities of clients instead, which
    # need not be roots. They are named to clients, which choose their own certificate by that.
    cdef X509_STORE* store = SSL_CTX_get_cert_store(c)
    cdef BIO* b = BIO_new_mem_buf(text.p, <int>text.n)
    cdef X509* x = PEM_read_bio_X509(b, NULL, tlscontext_no_password, NULL) if b != NULL else NULL
    cdef bint good = x != NULL and (not trusted or X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) == 1)
    cdef bint first = True
    while good and x != NULL:
        if trusted:
            good = X509_STORE_add_cert(store, x) == 1 and SSL_CTX_add_client_CA(c, x) == 1
        else:
            good = (SSL_CTX_use_certificate(c, x) if first else SSL_CTX_add1_chain_cert(c, x)) == 1
        first = False
        X509_free(x)
        x = PEM_read_bio_X509(b, NULL, tlscontext_no_password, NULL) if good else NULL
    BIO_free(b)
    return good and tlscontext_ended()

cdef bint tlscontext_ended() noexcept nogil:
    # Returns True if a text in PEM format has ended, False if it contains what is no certificate.
    if ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE:
        return False
    ERR_clear_error()
    return True

cdef bint tlscontext_key(SSL_CTX* c, Slice text) noexcept nogil:
    cdef BIO* b = BIO_new_mem_buf(text.p, <int>text.n)
    cdef EVP_PKEY* k = PEM_read_bio_PrivateKey(b, NULL, tlscontext_no_password, NULL) if b != NULL else NULL
    cdef bint good = k != NULL and SSL_CTX_use_PrivateKey(c, k) == 1 and SSL_CTX_check_private_key(c) == 1
    EVP_PKEY_free(k)
    BIO_free(b)
    return good
