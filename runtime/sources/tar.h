// The members of a tar file, one after the other: ustar, GNU long names and sizes, PAX `path` and
// `size`.
//
// For bytes nobody vouches for: each step moves on by at least one header, no name is longer than
// kNameMost, and no member is answered that is not there as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/types.h"
#include "runtime/sources/byte_view.h"

namespace batchflow {

struct TarMember {
  std::string_view folder;  // stands before `name`, with a slash between; mostly empty
  std::string_view name;    // the base name is always wholly in here
  std::uint64_t begin = 0;  // of its first header
  std::uint64_t data = 0;
  Bytes bytes = 0;
  bool regular = false;  // neither a folder nor a link nor a device
};

enum class TarStep : std::uint8_t {
  member,
  end,
  cut,      // the file ends within what begins at at()
  damaged,  // at at() there is no header
};

class TarWalker {
 public:
  static constexpr std::size_t kBlock = 512;
  static constexpr Bytes kNameMost = 64 << 10;

  // `long_name` keeps a long name until the next step; null when what `bytes` shows stays.
  TarWalker(ByteView& bytes, std::string* long_name) : bytes_(bytes), long_name_(long_name) {}

  // Names in `member` stay until the next step. Of a member whose bytes were cut it still says the
  // name; where not even that is there, it is empty.
  TarStep next(TarMember& member);
  // Where the next member begins.
  std::uint64_t at() const { return at_; }
  // After TarStep::end: there was a mark of it. Without one, more may have been cut off.
  bool end_marked() const { return end_marked_; }

 private:
  struct Extension;
  TarStep extension(char type, std::uint64_t data, Bytes bytes, Extension& extension);

  ByteView& bytes_;
  std::string* long_name_;
  std::uint64_t at_ = 0;
  bool end_marked_ = false;
};

// How WebDataset divides a member's name: `a/b.c.jpg` is part `c.jpg` of sample `a/b`. False for a
// name that belongs to no sample: no dot, or nothing before it.
bool split_member_name(std::string_view name, std::size_t& key_bytes, std::string_view& part);

}  // namespace batchflow
