// The files below a folder, in ascending order of bytes of their paths.
//
// Names that begin with a dot are passed over, as are links that lead out of the root or to
// folders, and what is neither file nor folder. Memory is that of the fullest folders on the way
// down.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace batchflow {

struct DataRoot;

struct WalkedFile {
  std::string_view path;  // below the root
  Bytes bytes = 0;
  std::int64_t modified_ns = 0;
};

struct FileWalk {
  std::function<void(const WalkedFile&)> file;
  std::function<void(std::string_view path)> folder;  // before what is in it
  // So many bytes more, or fewer, are taken by the entries of folders on the way down.
  std::function<void(std::int64_t bytes)> hold;
  bool refuses_closed = false;  // the walk ends with DatasetError at the first such path:
  std::uint64_t links = 0;      // out of the root, to folders, to nothing
  std::uint64_t specials = 0;   // devices, sockets, pipes
  // The first that not everybody on the machine may read, or that might lead to one; empty: none.
  std::string closed;

  // Of a root that is a file, that one. Throws DatasetError for what cannot be read or is more than
  // kDepthMost folders deep, DatasetChanged for what goes away meanwhile.
  static constexpr int kDepthMost = 64;
  void run(const DataRoot& root);

 private:
  struct Entry;
  std::vector<Entry> entries_of(int at, std::string_view path) const;
  void enter(int folder, std::string& path, int depth);
  void meet_link(const std::string& path);
  void look_whether_closed(const std::string& path, bool is_open);

  int root_ = -1;
};

}  // namespace batchflow
