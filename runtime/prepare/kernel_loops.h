// The bodies of the kernels. kernels.cpp includes this once for each kind of processor, inside a
// namespace with a type `Sums`, kBytes sums of bytes times weights: add(bytes, weight), and
// store(bytes), which rounds. across() and split() stand in kernels.cpp.

// Makes `taps.size()` pixels of each of `count` rows.
void across_by_taps(int count, const std::uint8_t* const* rows, std::span<const Taps> taps,
                    const std::int32_t* weights, std::uint8_t* const* out) {
  for (int i = 0; i < count; ++i) {
    std::uint8_t* to = out[i];
    for (const Taps& tap : taps) {
      const std::uint8_t* from = rows[i] + 3 * static_cast<std::size_t>(tap.first);
      const std::int32_t* weight = weights + tap.at;
      std::int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int k = 0; k < tap.count; ++k, from += 3) {
        red += from[0] * weight[k];
        green += from[1] * weight[k];
        blue += from[2] * weight[k];
      }
      *to++ = rounded(red);
      *to++ = rounded(green);
      *to++ = rounded(blue);
    }
  }
}

// `count`: how many rows, if that is known when this is compiled; else 0.
template <int count>
void down_by(const std::uint8_t* first, std::size_t stride, int rows, const std::int32_t* weights,
             std::size_t bytes, std::uint8_t* out) {
  const int n = count > 0 ? count : rows;
  std::size_t i = 0;
  for (; i + Sums::kBytes <= bytes; i += Sums::kBytes) {
    Sums sums;
    const std::uint8_t* row = first + i;
    for (int k = 0; k < n; ++k, row += stride) sums.add(row, weights[k]);
    sums.store(out + i);
  }
  for (; i < bytes; ++i) {
    std::int32_t sum = kHalf;
    for (int k = 0; k < n; ++k) sum += first[i + static_cast<std::size_t>(k) * stride] * weights[k];
    out[i] = rounded(sum);
  }
}

void down(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
          const std::int32_t* weights, std::size_t bytes, std::uint8_t* out) {
  const std::uint8_t* first = rows + static_cast<std::size_t>(taps.first) * stride;
  const std::int32_t* weight = weights + taps.at;
  switch (taps.count) {
    case 2:
      return down_by<2>(first, stride, 2, weight, bytes, out);
    case 3:
      return down_by<3>(first, stride, 3, weight, bytes, out);
    case 4:
      return down_by<4>(first, stride, 4, weight, bytes, out);
    default:
      return down_by<0>(first, stride, taps.count, weight, bytes, out);
  }
}
