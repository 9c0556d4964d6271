// JPEGs that are a header alone, for tests of code that reads no more of them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace batchflow::test {

struct Jpeg {
  int width = 0, height = 0;
  int frame = 0xc0;  // the marker
  int bits = 8;
  int components = 3;
  int across = 2, down = 2;  // of the first component
  int scan_components = 0;   // 0: all
  int first_id = 1;
  bool jfif = true;
  int adobe = -1;
  bool end = true;
};

inline std::vector<std::byte> jpeg(const Jpeg& want) {
  std::vector<std::byte> bytes;
  const auto put = [&](auto... values) { (bytes.push_back(static_cast<std::byte>(values)), ...); };
  const auto text = [&](std::string_view what) {
    for (const char c : what) put(c);
  };
  put(0xff, 0xd8);
  if (want.jfif) {
    put(0xff, 0xe0, 0, 16);
    text("JFIF");
    put(0, 1, 1, 0, 0, 1, 0, 1, 0, 0);
  }
  if (want.adobe >= 0) {
    put(0xff, 0xee, 0, 14);
    text("Adobe");
    put(0, 100, 0, 0, 0, 0, want.adobe);
  }
  put(0xff, want.frame, 0, 8 + 3 * want.components, want.bits, want.height >> 8, want.height & 255,
      want.width >> 8, want.width & 255, want.components);
  constexpr int kRgb[] = {'R', 'G', 'B', 'K'};
  for (int i = 0; i < want.components; ++i)
    put(want.first_id == 'R' ? kRgb[i] : want.first_id + i,
        i == 0 ? want.across << 4 | want.down : 0x11, i ? 1 : 0);
  const int scan = want.scan_components ? want.scan_components : want.components;
  put(0xff, 0xda, 0, 6 + 2 * scan, scan);
  for (int i = 0; i < scan; ++i) put(i + 1, 0);
  put(0, 63, 0, 0x12, 0x34);
  if (want.end) put(0xff, 0xd9);
  return bytes;
}

}  // namespace batchflow::test
