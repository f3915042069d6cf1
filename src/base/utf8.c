/* utf8.c: UTF-8 as a terminal shows it.
 *
 * In: bytes. Out: whether they are UTF-8, and the columns they take. Always holds: a byte that is
 * not UTF-8 counts as one character of one column, so no input is refused. The ranges are those of
 * wide (East Asian Wide and Fullwidth, emoji presentation) and of combining or invisible
 * characters. Tests: tests/unit/check_base_str.c.
 */
#include "utf8.h"

#include "str.h"

/* From first to last, both within. */
typedef struct Range {
  uint32_t first, last;
} Range;

/* Two columns. */
static const Range wide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x23F0, 0x23F0},
    {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x2648, 0x2653},
    {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},   {0x26AA, 0x26AB},
    {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},   {0x26D4, 0x26D4},
    {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},   {0x26FA, 0x26FA},
    {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},
    {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},   {0x2757, 0x2757},
    {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},   {0x2B1B, 0x2B1C},
    {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
    {0x3400, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},   {0x16FE0, 0x18AFF}, {0x1AFF0, 0x1B2FF}, {0x1F004, 0x1F004},
    {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A}, {0x1F200, 0x1F320},
    {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA},
    {0x1F3CF, 0x1F3D3}, {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E},
    {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC}, {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E},
    {0x1F550, 0x1F567}, {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4},
    {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2},
    {0x1F6D5, 0x1F6D7}, {0x1F6DC, 0x1F6DF}, {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC},
    {0x1F7E0, 0x1F7EB}, {0x1F7F0, 0x1F7F0}, {0x1F90C, 0x1F93A}, {0x1F93C, 0x1F945},
    {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
};

/* No column: control characters, combining marks, invisible characters. */
static const Range zero[] = {
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD},
    {0x05BF, 0x05BF},   {0x05C1, 0x05C2},   {0x05C4, 0x05C5}, {0x05C7, 0x05C7}, {0x0610, 0x061A},
    {0x064B, 0x065F},   {0x0670, 0x0670},   {0x06D6, 0x06DC}, {0x06DF, 0x06E4}, {0x06E7, 0x06E8},
    {0x06EA, 0x06ED},   {0x0711, 0x0711},   {0x0730, 0x074A}, {0x0900, 0x0902}, {0x093A, 0x093A},
    {0x093C, 0x093C},   {0x0941, 0x0948},   {0x094D, 0x094D}, {0x0951, 0x0957}, {0x0E31, 0x0E31},
    {0x0E34, 0x0E3A},   {0x0E47, 0x0E4E},   {0x1AB0, 0x1ACE}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},
    {0x202A, 0x202E},   {0x2060, 0x2064},   {0x2066, 0x206F}, {0x20D0, 0x20F0}, {0x302A, 0x302D},
    {0x3099, 0x309A},   {0xFE00, 0xFE0F},   {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF},
    {0xE0001, 0xE007F}, {0xE0100, 0xE01EF},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Whether a sorted table holds a code point. */
static bool within(const Range *table, size_t n, uint32_t c) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (c > table[mid].last)
      low = mid + 1;
    else
      high = mid;
  }
  return low < n && c >= table[low].first;
}

/* Bytes that a character starting with c should have, and the bits of it that c carries. */
static size_t sequence_length(unsigned char c, uint32_t *bits) {
  if (c >= 0xC2 && c <= 0xDF)
    return *bits = c & 0x1Fu, 2;
  if (c >= 0xE0 && c <= 0xEF)
    return *bits = c & 0x0Fu, 3;
  if (c >= 0xF0 && c <= 0xF4)
    return *bits = c & 0x07u, 4;
  return *bits = c, c < 0x80 ? 1 : 0;
}

/* The least code of each length refuses overlong forms, which could smuggle control characters. */
size_t utf8_next(const char *s, size_t n, uint32_t *code) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  size_t length = sequence_length((unsigned char)s[0], code);
  if (length == 0 || length > n)
    return 0;
  for (size_t i = 1; i < length; i++) {
    unsigned char c = (unsigned char)s[i];
    if ((c & 0xC0) != 0x80)
      return 0;
    *code = *code << 6 | (c & 0x3Fu);
  }
  if (*code < least[length] || *code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF))
    return 0;
  return length;
}

/* Printable ASCII first: nearly all text is. */
size_t utf8_columns(uint32_t code) {
  if (code >= 0x20 && code < 0x7F)
    return 1;
  if (within(zero, COUNT(zero), code))
    return 0;
  return within(wide, COUNT(wide), code) ? 2 : 1;
}

/* What is not UTF-8 is shown as one replacement each, so it takes one column. */
size_t str_width(const char *s, size_t n) {
  size_t columns = 0;
  for (size_t i = 0; i < n;) {
    uint32_t code;
    size_t length = utf8_next(s + i, n - i, &code);
    columns += length ? utf8_columns(code) : 1;
    i += length ? length : 1;
  }
  return columns;
}

/* The whole text, to its length: NUL is a character like others here. */
bool str_is_utf8(const char *s, size_t n) {
  for (size_t i = 0; i < n;) {
    uint32_t code;
    size_t length = utf8_next(s + i, n - i, &code);
    if (length == 0)
      return false;
    i += length;
  }
  return true;
}
