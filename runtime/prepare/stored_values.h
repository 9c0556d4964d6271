// Numbers and texts that samples store in other forms than their own bytes: in NumPy files and in
// JSON. They come from files of others, so anything may be wrong with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/batch/batch_spec.h"
#include "runtime/memory/scratch.h"
#include "runtime/sources/record.h"

namespace batchflow::prepare {

enum class StoredForm : std::uint8_t { plain, npy, json };  // plain: the part's own bytes

// What is read of a part: the form that it is stored in, and where it stands in JSON.
struct StoredAs {
  StoredForm form = StoredForm::plain;
  // Keys that lead to it, with dots between them; lists on the way are passed through, so that
  // `annotations.bbox` is the boxes of all annotations. Empty: the whole.
  std::string key;
};

class StoredValues {
 public:
  // What numbers() and text() take at most.
  static Bytes needs(const sources::Part& part, const StoredAs& as, batch::ElementType type);

  // Reads numbers as elements of `type`; each row has `shape`. Ragged: as many rows as there are.
  // Else one row. False: see problem(). The result stays until the next call.
  bool numbers(const sources::Part& part, const StoredAs& as, batch::ElementType type,
               const std::vector<std::uint64_t>& shape, bool ragged);
  // Reads rows of which each part holds one number.
  bool columns(std::span<const sources::Part* const> parts, const StoredAs& as,
               batch::ElementType type);
  // Reads the first text that stands there.
  bool text(const sources::Part& part, const StoredAs& as);

  std::span<std::byte> result() { return result_; }
  const std::string& problem() const { return problem_; }
  Bytes held() const { return result_.capacity() + rows_.capacity(); }
  void drop() {
    memory::drop(result_);
    memory::drop(rows_);
  }

 private:
  bool read_npy(const sources::Part& part, batch::ElementType type,
                const std::vector<std::uint64_t>& shape, bool ragged);
  bool read_json(const sources::Part& part, const StoredAs& as, batch::ElementType type,
                 std::uint64_t in_list, bool text);
  bool take(batch::ElementType from, std::span<const std::byte> numbers, batch::ElementType to);
  bool fail(std::string problem);

  std::vector<std::byte> result_, rows_;
  std::string problem_;
};

}  // namespace batchflow::prepare
