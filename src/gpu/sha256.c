/* sha256.c: the digest (FIPS 180-4) that names and guards cache entries.
 *
 * Goes in: bytes. Comes out: 32 bytes. Tests: tests/unit/check_gpu.c, against the standard's own
 * examples.
 */
#include "private.h"

#include <string.h>

/* n is 1 to 31. */
static uint32_t ror(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

/* The standard counts bytes from the top. */
static uint32_t read_be(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* The message schedule: 16 words of the block, 48 made from them. */
static void schedule(uint32_t w[64], const unsigned char *block) {
  for (int i = 0; i < 16; i++)
    w[i] = read_be(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] +
           (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
  }
}

/* One block of 64 bytes into the state. */
static void compress(uint32_t h[8], const unsigned char *block) {
  uint32_t w[64], v[8]; /* v: a b c d e f g h of the standard */
  schedule(w, block);
  memcpy(v, h, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25);
    uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t t1 = v[7] + s1 + choose + round_constant[i] + w[i];
    uint32_t s0 = ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1;
    v[0] = t1 + s0 + majority;
  }
  for (int i = 0; i < 8; i++)
    h[i] += v[i];
}

void gpu_hash_begin(GpuHash *h) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(h->h, start, sizeof start);
  h->n = 0;
}

void gpu_hash_add(GpuHash *h, const void *data, size_t n) {
  const unsigned char *p = data;
  size_t have = (size_t)(h->n & 63);
  h->n += n;
  while (n > 0) {
    size_t take = 64 - have < n ? 64 - have : n;
    memcpy(h->block + have, p, take);
    p += take;
    n -= take;
    have += take;
    if (have < 64)
      return;
    compress(h->h, h->block);
    have = 0;
  }
}

void gpu_hash_text(GpuHash *h, const char *s) {
  uint64_t n = strlen(s);
  gpu_hash_add(h, &n, sizeof n);
  gpu_hash_add(h, s, (size_t)n);
}

/* A one bit, zeros, and the length in bits, so that the last block is full. */
GpuKey gpu_hash_end(GpuHash *h) {
  GpuKey key;
  unsigned char tail[72] = {0x80};
  uint64_t bits = h->n * 8;
  size_t pad = 1 + (size_t)((119 - (h->n & 63)) % 64);
  for (int i = 0; i < 8; i++)
    tail[pad + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
  gpu_hash_add(h, tail, pad + 8);
  for (int i = 0; i < 32; i++)
    key.b[i] = (unsigned char)(h->h[i / 4] >> (24 - 8 * (i % 4)));
  return key;
}
