#include "runtime/storage/large_files.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::storage {

LargeFiles::~LargeFiles() {
  for (const File& file : files_) {
    if (!file.in_table && file.file >= 0) ::close(file.file);
  }
}

unsigned LargeFiles::acquire(const ReadPiece& piece, bool direct) {
  if (const auto known = indices_.find(piece.file); known != indices_.end()) {
    File& file = files_[known->second];
    ++file.users;
    file.used = ++now_;
    return known->second;
  }
  auto rank = [](const File& file) { return std::pair(file.users != 0, file.used); };
  const auto oldest =
      std::min_element(files_.begin(), files_.end(),
                       [&](const File& a, const File& b) { return rank(a) < rank(b); });
  BF_CHECK(oldest->users == 0);
  const auto index = static_cast<unsigned>(oldest - files_.begin());
  forget(index);
  File& file = files_[index];
  file.id = piece.file;
  file.root = piece.root;
  file.direct = direct;
  file.users = 1;
  file.used = ++now_;
  indices_.emplace(piece.file, index);
  return index;
}

void LargeFiles::opened(unsigned index, int fd) {
  File& file = files_[index];
  file.is_opening = false;
  file.in_table = ring_.has_files() &&
                  io_uring_register_files_update(&ring_.get(), first_ + index, &fd, 1) == 1;
  file.file = file.in_table ? static_cast<int>(first_ + index) : fd;
  if (file.in_table) ::close(fd);  // the table keeps the file open
}

void LargeFiles::forget(unsigned index) {
  File& file = files_[index];
  if (file.in_table) {
    int none = -1;
    io_uring_register_files_update(&ring_.get(), first_ + index, &none, 1);
  } else if (file.file >= 0) {
    ::close(file.file);
  }
  if (const auto known = indices_.find(file.id);
      known != indices_.end() && known->second == index) {
    indices_.erase(known);
  }
  const unsigned users = file.users;  // reads of a file that cannot be opened release it later
  file = File();
  file.users = users;
}

}  // namespace batchflow::storage
