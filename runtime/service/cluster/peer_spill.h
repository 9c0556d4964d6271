// The spill file of a node, as the node's peers use it: what they fetch out of it, and what they
// have it keep. The service's thread says what lies where; the thread of a peer's connection reads
// and writes, so that a slow drive holds up nothing else.
//
// A sample that is not there any more, or not as it was written, counts as missing: the peer's
// engine has it read from the store.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/memory/buffer_pool.h"
#include "runtime/remote/tcp_channel.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/peers.h"

namespace batchflow::service {

class PeerSpill {
 public:
  PeerSpill(Backend& backend, const Post& post, memory::BufferPool& buffers)
      : backend_(backend), post_(post), buffers_(buffers) {}

  struct Found {
    std::shared_ptr<std::byte[]> memory;  // of the samples
    std::vector<std::optional<std::span<const std::byte>>> samples;
  };
  // Nothing: the connection has ended meanwhile.
  std::optional<Found> read(const remote::TcpChannel& channel, DatasetId dataset,
                            const std::vector<SampleId>& samples);
  // Keeps what there is room for. False: the connection has ended meanwhile.
  bool keep(const remote::TcpChannel& channel, const KeptItems& items);

 private:
  struct Pages {
    std::shared_ptr<std::byte[]> memory;
    std::byte* begin = nullptr;  // as reads and writes past the page cache need it
  };
  Pages take_pages(Bytes bytes);

  Backend& backend_;
  const Post& post_;
  memory::BufferPool& buffers_;
};

}  // namespace batchflow::service
