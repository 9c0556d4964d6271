// The files below a folder, in ascending order of bytes of their paths.
//
// It skips names that begin with a dot, links to folders or out of the root, and entries that are
// neither file nor folder. It needs memory for the entries of the folders on the way down.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::sources {

struct DataRoot;

struct WalkedFile {
  std::string_view path;  // below the root
  Bytes bytes = 0;
  std::int64_t modified_ns = 0;  // of an object of a store: its mark
};

struct FileWalk {
  std::function<void(const WalkedFile&)> file;
  std::function<void(std::string_view path)> folder;  // called before its files
  // Called with the change in bytes that open folders take.
  std::function<void(std::int64_t bytes)> hold;
  // The walk ends with DatasetError at the first path that is put into `closed`.
  bool refuses_closed = false;
  std::uint64_t links = 0;     // that were skipped: out of the root, to folders, to nothing
  std::uint64_t specials = 0;  // devices, sockets, pipes
  // The first path that not all users of the machine may read, or that is a link; empty: none.
  std::string closed;

  // Where the root is a file, it gives that file. Throws DatasetError for a path that cannot be
  // read or is more than kDepthMost folders deep, DatasetChanged for one that disappears meanwhile.
  static constexpr int kDepthMost = 64;
  void run(const DataRoot& root);

 private:
  struct Entry;
  std::vector<Entry> entries_of(int at, std::string_view path) const;
  void list(const DataRoot& root);
  void enter(int folder, std::string& path, int depth);
  void take_link(const std::string& path);
  void note_closed(const std::string& path, bool is_open);

  int root_ = -1;
};

}  // namespace batchflow::sources
