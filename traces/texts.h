// Keeps many short texts in little memory: a reference to a text takes four bytes.
//
// Texts that return (users, queues) are interned: kept once. Texts that do not return (ids of jobs)
// are only kept. Control characters are replaced by `?`, so that a text never ends a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::traces {

using TextId = std::uint32_t;
inline constexpr TextId kNoText = 0;  // the empty text

class Texts {
 public:
  static constexpr std::size_t kLongest = 1024;  // a longer text is cut

  std::string_view operator[](TextId id) const;
  // Two equal texts have two ids. Throws ConfigError beyond 4 GiB of texts.
  TextId keep(std::string_view text);
  // Two equal texts have one id.
  TextId intern(std::string_view text);
  std::size_t interned() const { return interned_; }  // distinct texts, without the empty one
  std::size_t bytes() const { return pool_.capacity() + table_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    std::uint32_t hash = 0;
    TextId id = kNoText;  // free
  };
  std::size_t find(std::string_view text, std::uint32_t hash) const;
  void double_up();

  // Each text follows its length in two bytes; the empty text is at 0.
  std::string pool_ = std::string(2, '\0');
  std::vector<Entry> table_;
  std::size_t interned_ = 0;
};

}  // namespace batchflow::traces
