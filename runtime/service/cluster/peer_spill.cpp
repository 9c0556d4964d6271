#include "runtime/service/cluster/peer_spill.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "runtime/failpoint/failpoint.h"
#include "runtime/service/cluster/node_connection.h"

namespace batchflow::service {
namespace {

using storage::ReadPiece;
using storage::ReadResult;

// Moves whole pages by `move`, pread or pwrite. Answers an errno; 0: all is moved.
template <class Move>
int move_pages(Move move, const ReadPiece& piece, std::byte* memory) {
  if (piece.write && BF_FAILPOINT("storage.spill.full")) return ENOSPC;
  if (piece.write && BF_FAILPOINT("storage.spill.write")) return EIO;
  if (!piece.write && BF_FAILPOINT("storage.spill.read")) return EIO;
  const Bytes all = storage::room_for(piece.offset, piece.bytes);
  for (Bytes at = 0; at < all;) {
    const ssize_t moved =
        move(piece.fd, memory + at, all - at, static_cast<off_t>(piece.offset + at));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errno;
    if (moved == 0) return EIO;
    at += static_cast<Bytes>(moved);
  }
  return 0;
}

ReadResult result_of(int error, const std::byte* memory, Bytes bytes) {
  ReadResult result;
  result.error = error;
  result.bytes = error == 0 ? bytes : 0;
  result.sum = error == 0 ? storage::checksum(memory, bytes) : 0;
  return result;
}

}  // namespace

PeerSpill::Pages PeerSpill::take_pages(Bytes bytes) {
  Pages pages;
  std::size_t room = bytes + storage::kSector;
  pages.memory = buffers_.take(room);
  void* begin = pages.memory.get();
  pages.begin = static_cast<std::byte*>(std::align(storage::kSector, bytes, begin, room));
  return pages;
}

std::optional<PeerSpill::Found> PeerSpill::read(const remote::TcpChannel& channel,
                                                DatasetId dataset,
                                                const std::vector<SampleId>& samples) {
  using Places = std::vector<std::optional<SpillTier::Read>>;
  const auto places = on_service_thread<Places>(post_, channel, [this, dataset, samples] {
    Places all;
    for (const SampleId sample : samples)
      all.push_back(backend_.spill_tier().find(dataset, sample));
    return all;
  });
  if (!places) return std::nullopt;
  Found found;
  found.samples.resize(samples.size());
  Bytes bytes = 0;
  for (const auto& one : *places) bytes += one ? storage::room_for(0, one->piece.bytes) : 0;
  if (bytes == 0) return found;
  const Pages pages = take_pages(bytes);
  found.memory = pages.memory;
  std::vector<ReadResult> results(samples.size());
  Bytes at = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!(*places)[i]) continue;
    const ReadPiece& piece = (*places)[i]->piece;
    std::byte* const memory = pages.begin + at;
    results[i] = result_of(move_pages(pread, piece, memory), memory, piece.bytes);
    found.samples[i] = std::span<const std::byte>(memory, piece.bytes);
    at += storage::room_for(0, piece.bytes);
  }
  const auto sound = on_service_thread<std::vector<bool>>(
      post_, channel, [this, dataset, samples, places = *places, results] {
        std::vector<bool> all;
        for (std::size_t i = 0; i < samples.size(); ++i)
          all.push_back(places[i] && backend_.spill_tier().is_sound(dataset, samples[i], *places[i],
                                                                    results[i]));
        return all;
      });
  if (!sound) return std::nullopt;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!(*sound)[i]) found.samples[i].reset();
  }
  return found;
}

bool PeerSpill::keep(const remote::TcpChannel& channel, const KeptItems& items) {
  struct Write {
    StagedSample sample;
    std::optional<SpillTier::Write> to;
    ReadResult result;
  };
  // The service's thread may come to it when this connection is gone.
  const auto writes = std::make_shared<std::vector<Write>>(items.samples.size());
  Bytes most = 0;
  for (std::size_t i = 0; i < writes->size(); ++i) {
    Write& one = (*writes)[i];
    one.sample.sample = items.samples[i];
    one.sample.bytes = items.parts[i].size();
    one.result.error = ECANCELED;
    most = std::max(most, storage::room_for(0, one.sample.bytes));
  }
  const auto begun = on_service_thread<bool>(
      post_, channel, [this, writes, dataset = items.dataset, share = items.share] {
        if (!backend_.may_spill(dataset)) return false;
        backend_.spill_tier().open(share, dataset);
        for (Write& one : *writes) {
          one.to = backend_.spill_tier().write(dataset, one.sample);
          if (one.to) one.sample.entry = one.to->entry;
        }
        return true;
      });
  if (begun && *begun) {
    const Pages pages = take_pages(most);
    for (std::size_t i = 0; i < writes->size(); ++i) {
      Write& one = (*writes)[i];
      if (!one.to) continue;
      const std::span<const std::byte> bytes = items.parts[i];
      std::memcpy(pages.begin, bytes.data(), bytes.size());
      std::memset(pages.begin + bytes.size(), 0, storage::room_for(0, bytes.size()) - bytes.size());
      one.result =
          result_of(move_pages(pwrite, one.to->piece, pages.begin), pages.begin, bytes.size());
    }
  }
  // Posted in any case, after what has begun them: a write that is begun must end.
  const auto ended =
      on_service_thread<bool>(post_, channel, [this, writes, dataset = items.dataset] {
        for (const Write& one : *writes) {
          if (one.to) backend_.spill_tier().written(dataset, one.sample, one.result, false);
        }
        return true;
      });
  return begun && ended;
}

}  // namespace batchflow::service
