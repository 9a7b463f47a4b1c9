# What the core uses of OpenSSL's libcrypto (3.0 on). Contexts are not shared between threads; each worker owns its own.

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
