// The bodies of the kernels. kernels.cpp includes this once for each kind of processor, inside a
// namespace with a type `Sums`, kRowsAtOnce sums of bytes times weights: add(bytes, weight), and
// store(bytes), which rounds.

// Turns sixteen rows of sixteen bytes into sixteen columns: four times, each row of the first half
// is interleaved with the corresponding row of the second half.
inline void turn(Bytes16 (&rows)[kRowsAtOnce]) {
  constexpr int half = kRowsAtOnce / 2;
  for (int pass = 0; pass < 4; ++pass) {
    Bytes16 next[kRowsAtOnce];
    for (int i = 0; i < half; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + half], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                            20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + half], 8, 24, 9, 25, 10, 26, 11,
                                                27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

// Rows into columns: byte i of all rows, then byte i + 1. Bytes beyond the end of a row are left
// alone.
void to_columns(const std::uint8_t* const* rows, std::size_t bytes, std::uint8_t* columns) {
  std::size_t i = 0;
  Bytes16 block[kRowsAtOnce];
  for (; i + sizeof(Bytes16) <= bytes; i += sizeof(Bytes16)) {
    for (int r = 0; r < kRowsAtOnce; ++r) std::memcpy(&block[r], rows[r] + i, sizeof block[r]);
    turn(block);
    std::memcpy(columns + i * kRowsAtOnce, block, sizeof block);
  }
  for (; i < bytes; ++i)
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) columns[i * kRowsAtOnce + r] = rows[r][i];
}

void to_rows(const std::uint8_t* columns, std::size_t bytes, std::uint8_t* const* rows) {
  std::size_t i = 0;
  Bytes16 block[kRowsAtOnce];
  for (; i + sizeof(Bytes16) <= bytes; i += sizeof(Bytes16)) {
    std::memcpy(block, columns + i * kRowsAtOnce, sizeof block);
    turn(block);
    for (int r = 0; r < kRowsAtOnce; ++r) std::memcpy(rows[r] + i, &block[r], sizeof block[r]);
  }
  for (; i < bytes; ++i)
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) rows[r][i] = columns[i * kRowsAtOnce + r];
}

void across(const std::uint8_t* columns, std::span<const Taps> taps, const std::int32_t* weights,
            std::uint8_t* out) {
  constexpr std::size_t pixel = 3 * kRowsAtOnce;
  for (const Taps& tap : taps) {
    const std::uint8_t* from = columns + static_cast<std::size_t>(tap.first) * pixel;
    const std::int32_t* weight = weights + tap.at;
    Sums red, green, blue;
    for (int k = 0; k < tap.count; ++k, from += pixel) {
      red.add(from, weight[k]);
      green.add(from + kRowsAtOnce, weight[k]);
      blue.add(from + 2 * kRowsAtOnce, weight[k]);
    }
    red.store(out);
    green.store(out + kRowsAtOnce);
    blue.store(out + 2 * kRowsAtOnce);
    out += pixel;
  }
}

void down(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
          const std::int32_t* weights, std::size_t bytes, std::uint8_t* out) {
  const std::uint8_t* first = rows + static_cast<std::size_t>(taps.first) * stride;
  const std::int32_t* weight = weights + taps.at;
  std::size_t i = 0;
  for (; i + 2 * sizeof(Bytes16) <= bytes; i += 2 * sizeof(Bytes16)) {
    Sums left, right;
    const std::uint8_t* row = first + i;
    for (int k = 0; k < taps.count; ++k, row += stride) {
      left.add(row, weight[k]);
      right.add(row + sizeof(Bytes16), weight[k]);
    }
    left.store(out + i);
    right.store(out + i + sizeof(Bytes16));
  }
  for (; i < bytes; ++i) {
    std::int32_t sum = kHalf;
    for (int k = 0; k < taps.count; ++k)
      sum += first[i + static_cast<std::size_t>(k) * stride] * weight[k];
    out[i] = static_cast<std::uint8_t>(std::min(sum >> kWeightBits, 255));
  }
}

void split(const std::uint8_t* pixels, std::size_t count, std::uint8_t* __restrict red,
           std::uint8_t* __restrict green, std::uint8_t* __restrict blue) {
  for (std::size_t i = 0; i < count; ++i) {
    red[i] = pixels[3 * i];
    green[i] = pixels[3 * i + 1];
    blue[i] = pixels[3 * i + 2];
  }
}

constexpr Kernels make_table(const char* name) {
  return {name, to_columns, to_rows, across, down, split};
}
