# SHA-256 of short texts: ids of messages, spelled ids of partitions, tokens. Owns nothing.

cdef inline void digest_sha256(const void* text, size_t n, unsigned char* out) noexcept nogil:
    # Writes 32 bytes to out. SHA256() of OpenSSL 3 looks the algorithm up for every text, under a lock. For a short
    # text that takes seven times as long as the digest.
    cdef SHA256_CTX c
    SHA256_Init(&c)
    SHA256_Update(&c, text, n)
    SHA256_Final(out, &c)
