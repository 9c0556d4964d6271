#include "runtime/storage/large_files.h"

#include <unistd.h>

#include <algorithm>

#include "core/check.h"

namespace batchflow {

LargeFiles::~LargeFiles() {
  for (const File& file : files_) {
    if (!file.in_table && file.file >= 0) ::close(file.file);
  }
}

unsigned LargeFiles::acquire(const ReadPiece& piece, bool direct) {
  if (const auto known = places_.find(piece.file); known != places_.end()) {
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
  const auto place = static_cast<unsigned>(oldest - files_.begin());
  forget(place);
  File& file = files_[place];
  file.id = piece.file;
  file.root = piece.root;
  file.direct = direct;
  file.users = 1;
  file.used = ++now_;
  places_.emplace(piece.file, place);
  return place;
}

void LargeFiles::opened(unsigned place, int fd) {
  File& file = files_[place];
  file.is_opening = false;
  file.in_table = ring_.has_files() &&
                  io_uring_register_files_update(&ring_.get(), first_ + place, &fd, 1) == 1;
  file.file = file.in_table ? static_cast<int>(first_ + place) : fd;
  if (file.in_table) ::close(fd);  // the table keeps the file open
}

void LargeFiles::forget(unsigned place) {
  File& file = files_[place];
  if (file.in_table) {
    int none = -1;
    io_uring_register_files_update(&ring_.get(), first_ + place, &none, 1);
  } else if (file.file >= 0) {
    ::close(file.file);
  }
  if (const auto known = places_.find(file.id); known != places_.end() && known->second == place) {
    places_.erase(known);
  }
  const unsigned users = file.users;  // of one that cannot be opened: they are about to be told
  file = File();
  file.users = users;
}

void LargeFiles::close_root(int root) {
  for (unsigned place = 0; place < files_.size(); ++place) {
    if (files_[place].root == root && files_[place].users == 0) forget(place);
  }
}

}  // namespace batchflow
