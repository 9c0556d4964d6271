// The members of a tar file, one after the other: ustar, GNU long names and sizes, PAX `path` and
// `size`.
//
// The bytes are untrusted. Each step moves on by at least one header, no name is longer than
// kNameMost, and only members that are there as a whole are answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

struct TarMember {
  std::string_view folder;  // comes before `name`, with a slash between them; mostly empty
  std::string_view name;    // always has all of the base name
  std::uint64_t begin = 0;  // the offset of its first header
  std::uint64_t data = 0;
  Bytes bytes = 0;
  bool regular = false;  // neither a folder nor a link nor a device
};

enum class TarStep : std::uint8_t {
  member,
  end,
  cut,      // the file ends within the member that begins at at()
  damaged,  // there is no header at at()
};

class TarWalker {
 public:
  static constexpr std::size_t kBlock = 512;
  static constexpr Bytes kNameMost = 64 << 10;

  // `long_name` keeps a long name until the next step. Null: the bytes that `bytes` gives stay.
  TarWalker(ByteView& bytes, std::string* long_name) : bytes_(bytes), long_name_(long_name) {}

  // Names in `member` stay until the next step. If a member's bytes were cut, it still has its
  // name; if the name was cut, too, it is empty.
  TarStep next(TarMember& member);
  // Where the next member begins.
  std::uint64_t at() const { return at_; }
  // After TarStep::end: whether a mark of the end was there. Without one, members may have been cut
  // off.
  bool end_marked() const { return end_marked_; }

 private:
  struct Extension;
  TarStep extension(char type, std::uint64_t data, Bytes bytes, Extension& extension);

  ByteView& bytes_;
  std::string* long_name_;
  std::uint64_t at_ = 0;
  bool end_marked_ = false;  // the archive has its end
};

// Divides a member's name as WebDataset does: `a/b.c.jpg` is part `c.jpg` of sample `a/b`. False
// for a name that belongs to no sample, since it has no dot or nothing before the dot.
bool split_member_name(std::string_view name, std::size_t& key_bytes, std::string_view& part);

}  // namespace batchflow::sources
