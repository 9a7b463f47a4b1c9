# Declares what the core uses of OpenSSL (3.0 on), libcrypto and libssl. A cipher context belongs to one worker, and a
# session of TLS too. All threads share a context of TLS.
from libc.stdint cimport uint64_t

cdef extern from "<openssl/sha.h>" nogil:
    unsigned char* SHA1(const unsigned char*, size_t, unsigned char*)
    ctypedef struct SHA256_CTX:
        pass
    int SHA256_Init(SHA256_CTX*)
    int SHA256_Update(SHA256_CTX*, const void*, size_t)
    int SHA256_Final(unsigned char*, SHA256_CTX*)

cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_CIPHER:
        pass
    ctypedef struct EVP_CIPHER_CTX:
        pass
    ctypedef struct ENGINE:
        pass
    int EVP_CTRL_AEAD_SET_IVLEN
    int EVP_CTRL_AEAD_GET_TAG
    int EVP_CTRL_AEAD_SET_TAG
    const EVP_CIPHER* EVP_aes_256_gcm()
    EVP_CIPHER_CTX* EVP_CIPHER_CTX_new()
    void EVP_CIPHER_CTX_free(EVP_CIPHER_CTX* c)
    int EVP_CIPHER_CTX_ctrl(EVP_CIPHER_CTX* c, int what, int n, void* p)
    int EVP_CipherInit_ex(EVP_CIPHER_CTX* c, const EVP_CIPHER* kind, ENGINE* engine, const unsigned char* key,
                          const unsigned char* iv, int encrypt)
    int EVP_CipherUpdate(EVP_CIPHER_CTX* c, unsigned char* out, int* written, const unsigned char* p, int n)
    int EVP_CipherFinal_ex(EVP_CIPHER_CTX* c, unsigned char* out, int* written)
    int EVP_EncodeBlock(unsigned char* out, const unsigned char* p, int n)      # and a NUL behind it
    # zeros where the padding was; -1: not base64
    int EVP_DecodeBlock(unsigned char* out, const unsigned char* p, int n)

    ctypedef struct EVP_MD:
        pass
    const EVP_MD* EVP_sha256()

cdef extern from "<openssl/hmac.h>" nogil:
    unsigned char* HMAC(const EVP_MD* kind, const void* key, int key_n, const unsigned char* p, size_t n,
                        unsigned char* out, unsigned int* written)

cdef extern from "<openssl/crypto.h>" nogil:
    int CRYPTO_memcmp(const void* a, const void* b, size_t n)
    void OPENSSL_cleanse(void* p, size_t n)

cdef extern from "<openssl/bio.h>" nogil:
    ctypedef struct BIO:
        pass
    ctypedef struct BIO_METHOD:
        pass
    int BIO_TYPE_SOURCE_SINK, BIO_CTRL_FLUSH
    int BIO_get_new_index()
    BIO_METHOD* BIO_meth_new(int kind, const char* name)
    int BIO_meth_set_read(BIO_METHOD* m, int (*read)(BIO*, char*, int) noexcept nogil)
    int BIO_meth_set_write(BIO_METHOD* m, int (*write)(BIO*, const char*, int) noexcept nogil)
    int BIO_meth_set_ctrl(BIO_METHOD* m, long (*ctrl)(BIO*, int, long, void*) noexcept nogil)
    void BIO_meth_free(BIO_METHOD* m)
    BIO* BIO_new(const BIO_METHOD* m)
    BIO* BIO_new_mem_buf(const void* p, int n)
    int BIO_free(BIO* b)
    int BIO_up_ref(BIO* b)
    void BIO_set_data(BIO* b, void* p)
    void* BIO_get_data(BIO* b)
    void BIO_set_init(BIO* b, int init)
    void BIO_set_retry_read(BIO* b)
    void BIO_clear_retry_flags(BIO* b)

cdef extern from "<openssl/err.h>" nogil:
    unsigned long ERR_get_error()
    unsigned long ERR_peek_error()
    unsigned long ERR_peek_last_error()
    void ERR_clear_error()
    const char* ERR_reason_error_string(unsigned long e)
    int ERR_GET_REASON(unsigned long e)

cdef extern from "<openssl/pem.h>" nogil:
    ctypedef struct X509:
        pass
    ctypedef struct EVP_PKEY:
        pass
    int PEM_R_NO_START_LINE
    X509* PEM_read_bio_X509(BIO* b, X509** into, int (*ask)(char*, int, int, void*) noexcept nogil, void* u)
    EVP_PKEY* PEM_read_bio_PrivateKey(BIO* b, EVP_PKEY** into, int (*ask)(char*, int, int, void*) noexcept nogil,
                                      void* u)
    void EVP_PKEY_free(EVP_PKEY* k)

cdef extern from "<openssl/x509v3.h>" nogil:
    ctypedef struct X509_NAME:
        pass
    ctypedef struct X509_NAME_ENTRY:
        pass
    ctypedef struct X509_STORE:
        pass
    ctypedef struct ASN1_STRING:
        pass
    ctypedef struct GENERAL_NAMES:
        pass
    ctypedef struct GENERAL_NAME:
        pass
    unsigned long X509_V_FLAG_PARTIAL_CHAIN
    int NID_subject_alt_name, NID_commonName, GEN_URI, GEN_DNS, GEN_EMAIL, X509_V_OK
    void X509_free(X509* x)
    int X509_STORE_set_flags(X509_STORE* s, unsigned long flags)
    int X509_STORE_add_cert(X509_STORE* s, X509* x)
    X509_NAME* X509_get_subject_name(const X509* x)
    int X509_NAME_get_index_by_NID(X509_NAME* name, int nid, int after)
    X509_NAME_ENTRY* X509_NAME_get_entry(const X509_NAME* name, int at)
    ASN1_STRING* X509_NAME_ENTRY_get_data(const X509_NAME_ENTRY* e)
    void* X509_get_ext_d2i(const X509* x, int nid, int* critical, int* at)
    int sk_GENERAL_NAME_num(const GENERAL_NAMES* s)
    GENERAL_NAME* sk_GENERAL_NAME_value(const GENERAL_NAMES* s, int at)
    void GENERAL_NAMES_free(GENERAL_NAMES* s)
    void* GENERAL_NAME_get0_value(const GENERAL_NAME* n, int* kind)
    const unsigned char* ASN1_STRING_get0_data(const ASN1_STRING* s)
    int ASN1_STRING_length(const ASN1_STRING* s)
    int ASN1_STRING_to_UTF8(unsigned char** out, const ASN1_STRING* s)
    const char* X509_verify_cert_error_string(long code)
    void OPENSSL_free(void* p)

cdef extern from "<openssl/ssl.h>" nogil:
    ctypedef struct SSL_CTX:
        pass
    ctypedef struct SSL:
        pass
    ctypedef struct SSL_METHOD:
        pass
    int TLS1_2_VERSION, SSL_MODE_RELEASE_BUFFERS, SSL_MODE_NO_AUTO_CHAIN, SSL_SESS_CACHE_OFF, SSL_VERIFY_PEER
    int SSL_VERIFY_FAIL_IF_NO_PEER_CERT, SSL_ERROR_NONE, SSL_ERROR_WANT_READ, SSL_ERROR_ZERO_RETURN, SSL_ERROR_SSL
    int SSL_TLSEXT_ERR_OK, SSL_TLSEXT_ERR_ALERT_FATAL, OPENSSL_NPN_NEGOTIATED, SSL_R_CERTIFICATE_VERIFY_FAILED
    uint64_t SSL_OP_NO_RENEGOTIATION, SSL_OP_NO_COMPRESSION, SSL_OP_NO_TICKET
    const SSL_METHOD* TLS_server_method()
    SSL_CTX* SSL_CTX_new(const SSL_METHOD* m)
    void SSL_CTX_free(SSL_CTX* c)
    int SSL_CTX_up_ref(SSL_CTX* c)
    int SSL_CTX_set_min_proto_version(SSL_CTX* c, int version)
    uint64_t SSL_CTX_set_options(SSL_CTX* c, uint64_t options)
    long SSL_CTX_set_mode(SSL_CTX* c, long mode)
    long SSL_CTX_set_max_cert_list(SSL_CTX* c, long most)
    long SSL_CTX_set_session_cache_mode(SSL_CTX* c, long mode)
    int SSL_CTX_set_session_id_context(SSL_CTX* c, const unsigned char* p, unsigned int n)
    int SSL_CTX_set_num_tickets(SSL_CTX* c, size_t n)
    int SSL_CTX_set_cipher_list(SSL_CTX* c, const char* ciphers)
    int SSL_CTX_set1_groups_list(SSL_CTX* c, const char* groups)
    void SSL_CTX_set_alpn_select_cb(
        SSL_CTX* c, int (*select)(SSL*, const unsigned char**, unsigned char*, const unsigned char*, unsigned int,
                                  void*) noexcept nogil, void* u)
    int SSL_select_next_proto(unsigned char** out, unsigned char* n, const unsigned char* server, unsigned int server_n,
                              const unsigned char* client, unsigned int client_n)
    int SSL_CTX_use_certificate(SSL_CTX* c, X509* x)
    long SSL_CTX_add1_chain_cert(SSL_CTX* c, X509* x)
    int SSL_CTX_use_PrivateKey(SSL_CTX* c, EVP_PKEY* k)
    int SSL_CTX_check_private_key(const SSL_CTX* c)
    X509_STORE* SSL_CTX_get_cert_store(const SSL_CTX* c)
    int SSL_CTX_add_client_CA(SSL_CTX* c, X509* x)
    void SSL_CTX_set_verify(SSL_CTX* c, int mode, void* callback)
    SSL* SSL_new(SSL_CTX* c)
    void SSL_free(SSL* s)
    void SSL_set_bio(SSL* s, BIO* r, BIO* w)
    void SSL_set_accept_state(SSL* s)
    int SSL_do_handshake(SSL* s)
    int SSL_read_ex(SSL* s, void* p, size_t n, size_t* got)
    int SSL_write_ex(SSL* s, const void* p, size_t n, size_t* written)
    int SSL_shutdown(SSL* s)
    int SSL_version(const SSL* s)
    int SSL_pending(const SSL* s)
    int SSL_get_error(const SSL* s, int outcome)
    int SSL_session_reused(const SSL* s)
    long SSL_get_verify_result(const SSL* s)
    X509* SSL_get0_peer_certificate(const SSL* s)
