#include "runtime/service/cluster/peer_links.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "core/base/byte_codec.h"
#include "fmt/format.h"
#include "runtime/batch/batch_parts.h"
#include "runtime/feeds/feed_index.h"
#include "runtime/remote/remote_options.h"
#include "runtime/sources/bundles.h"

namespace batchflow::service {
namespace {

using remote::RemoteKind;
using remote::TcpChannel;

enum class Ask : std::uint8_t { slice = 1, items = 2, keep = 3, keep_on_drive = 4, records = 5 };

constexpr std::size_t kRequestMost = std::size_t{16} << 20;
// A node that works begins its answer at once. Behind a link that was cut, nothing comes. An answer
// is waited for so many times as long as a node may be silent.
constexpr int kAnswerWithin = 5;
constexpr Bytes kPayloadMost = Bytes{4} << 30;
constexpr std::uint64_t kSamplesMost = std::uint64_t{1} << 20;
constexpr std::uint64_t kClassesMost = std::uint64_t{1} << 31;

void put_samples(const std::vector<SampleId>& samples, ByteWriter& out) {
  out.count(samples.size());
  for (const SampleId sample : samples) out.count(sample.value);
}

bool take_samples(ByteReader& in, std::vector<SampleId>& samples) {
  const std::uint64_t count = in.count(std::min<std::uint64_t>(in.left(), kSamplesMost));
  samples.clear();
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) samples.emplace_back(in.count());
  return in.ok();
}

bool take_sizes(ByteReader& in, std::size_t count, std::vector<std::uint64_t>& sizes,
                std::uint64_t& sum) {
  sizes.clear();
  sum = 0;
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    sizes.push_back(in.count() - 1);  // so that kMissing takes a byte
    if (sizes.back() == FetchedItems::kMissing) continue;
    if (sizes.back() > kPayloadMost - sum) return false;
    sum += sizes.back();
  }
  return in.ok();
}

bool write_head(TcpChannel& channel, const std::vector<std::byte>& head) {
  return channel.write(RemoteKind::record, head);
}

std::optional<std::size_t> read_head(TcpChannel& channel, RemoteKind kind, std::uint64_t most,
                                     TcpChannel::Clock::time_point deadline) {
  TcpChannel::Head head;
  if (!channel.read_head(head, deadline)) return std::nullopt;
  if (head.kind == kind && head.bytes <= most) return head.bytes;
  channel.shut("it answers something else than was asked");
  return std::nullopt;
}

bool read_request(TcpChannel& channel, TcpChannel::Clock::time_point deadline,
                  std::vector<std::byte>& out) {
  const auto size = read_head(channel, RemoteKind::record, kRequestMost, deadline);
  if (!size) return false;
  out.resize(*size);
  return channel.read(out);
}

bool read_payload(TcpChannel& channel, memory::BufferPool& buffers, Payload& out) {
  const auto deadline = TcpChannel::Clock::now() + TcpChannel::kPatience;
  const auto size = read_head(channel, RemoteKind::payload, kPayloadMost, deadline);
  if (!size) return false;
  out = {buffers.take(*size), *size};
  return channel.read({out.memory.get(), out.bytes});
}

// The head of an answer. Its first byte says whether there is one.
bool read_answer(TcpChannel& channel, std::chrono::milliseconds silence,
                 std::vector<std::byte>& out) {
  const auto deadline = TcpChannel::Clock::now() + kAnswerWithin * silence;
  return read_request(channel, deadline, out) && !out.empty() && out.front() == std::byte{1};
}

std::optional<FetchedSlice> fetch_slice(TcpChannel& channel, std::chrono::milliseconds silence,
                                        memory::BufferPool& buffers, const WantedSlice& wanted) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.u8(static_cast<std::uint8_t>(Ask::slice));
  out.count(wanted.share.value);
  out.count(wanted.slot.value);
  out.count(wanted.from);
  out.count(wanted.to);
  if (!write_head(channel, bytes) || !read_answer(channel, silence, bytes)) return std::nullopt;
  ByteReader in(std::span<const std::byte>(bytes).subspan(1));
  FetchedSlice fetched;
  fetched.pipeline = PipelineId(in.count32());
  fetched.audience = in.u64();
  if (!in.ok() || !in.at_end() || !read_payload(channel, buffers, fetched.slot))
    return std::nullopt;
  return fetched;
}

std::optional<FetchedItems> fetch_items(TcpChannel& channel, std::chrono::milliseconds silence,
                                        memory::BufferPool& buffers, const WantedItems& wanted) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.u8(static_cast<std::uint8_t>(wanted.records ? Ask::records : Ask::items));
  out.count(wanted.dataset.value);
  if (!wanted.records) {
    out.u64(wanted.prefix);
    out.u8(wanted.bundle_shift);
  }
  put_samples(wanted.samples, out);
  if (!write_head(channel, bytes) || !read_answer(channel, silence, bytes)) return std::nullopt;
  ByteReader in(std::span<const std::byte>(bytes).subspan(1));
  FetchedItems fetched;
  std::uint64_t sum = 0;
  if (!take_sizes(in, wanted.samples.size(), fetched.sizes, sum)) return std::nullopt;
  for (std::size_t i = 0; wanted.records && i < wanted.samples.size() && in.ok(); ++i)
    fetched.classes.push_back(
        static_cast<std::int32_t>(static_cast<std::int64_t>(in.count(kClassesMost)) - 1));
  if (!in.ok() || !in.at_end() || !read_payload(channel, buffers, fetched.payload))
    return std::nullopt;
  if (fetched.payload.bytes != sum) {
    channel.shut("it sends other sizes than it says");
    return std::nullopt;
  }
  return fetched;
}

void keep_items(TcpChannel& channel, std::chrono::milliseconds silence, const KeptItems& items) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.u8(static_cast<std::uint8_t>(items.on_drive ? Ask::keep_on_drive : Ask::keep));
  out.count(items.dataset.value);
  out.count(items.share.value);
  out.u8(items.bundle_shift);
  put_samples(items.samples, out);
  for (const std::uint64_t size : items.sizes) out.count(size + 1);
  if (write_head(channel, bytes) && channel.write_parts(RemoteKind::payload, items.parts))
    read_answer(channel, silence, bytes);
}

}  // namespace

// ------------------------------------------------------------------------------------ asking ----

PeerLinks::PeerLinks(NodeAccess access, Post post, std::chrono::milliseconds silence,
                     Unreachable unreachable)
    : access_(std::move(access)),
      post_(std::move(post)),
      silence_(silence),
      unreachable_(std::move(unreachable)) {}

PeerLinks::~PeerLinks() {
  while (!peers_.empty()) remove(NodeId(peers_.begin()->first));
  for (const auto& peer : ended_) {
    for (std::thread& lane : peer->lanes) lane.join();
  }
}

// Its lanes end soon, and what still waits is answered with nothing.
void PeerLinks::end(std::unique_ptr<Peer> peer) {
  std::erase_if(ended_, [](const std::unique_ptr<Peer>& one) {
    {
      const std::lock_guard lock(one->mutex);
      if (one->running > 0) return false;
    }
    for (std::thread& lane : one->lanes) lane.join();
    return true;
  });
  std::deque<Request> waiting;
  {
    const std::lock_guard lock(peer->mutex);
    peer->ending = true;
    waiting.swap(peer->waiting);
    for (TcpChannel* const channel : peer->channels) channel->shut("the node is gone");
    peer->changed.notify_all();
  }
  for (const Request& request : waiting) request(nullptr);
  ended_.push_back(std::move(peer));
}

void PeerLinks::set(NodeId node, const std::string& address) {
  remove(node);
  auto peer = std::make_unique<Peer>();
  peer->address = address;
  peer->traffic.node = node.value;
  peers_[node.value] = std::move(peer);
}

void PeerLinks::remove(NodeId node) {
  if (auto found = peers_.extract(node.value)) end(std::move(found.mapped()));
}

void PeerLinks::ask(NodeId node, Request request) {
  const auto found = peers_.find(node.value);
  if (found == peers_.end()) {
    request(nullptr);
    return;
  }
  Peer& peer = *found->second;
  const std::lock_guard lock(peer.mutex);
  peer.waiting.push_back(std::move(request));
  if (peer.lanes.size() < std::min(kLanes, peer.waiting.size())) {
    peer.lanes.emplace_back([this, &peer] { run(peer); });
    ++peer.running;
  }
  peer.changed.notify_all();
}

// REQUIRES: peer.mutex is held
void PeerLinks::note_failure(Peer& peer, const std::string& problem) {
  const auto now = TcpChannel::Clock::now();
  if (!peer.failing_since) peer.failing_since = now;
  const bool is_new = now - *peer.failing_since > 2 * silence_ && !peer.ending;
  if (!is_new || std::exchange(peer.is_reported, true)) return;
  post_([unreachable = unreachable_, node = NodeId(peer.traffic.node), problem] {
    unreachable(node, problem);
  });
}

std::string PeerLinks::reach_problem(const std::string& address) const {
  std::string problem;
  return connect_to_node(address, access_, remote::kPeer, problem) ? "" : problem;
}

void PeerLinks::run(Peer& peer) {
  pthread_setname_np(pthread_self(), "bf-peer");
  std::unique_ptr<TcpChannel> channel;
  std::unique_lock lock(peer.mutex);
  for (;;) {
    peer.changed.wait(lock, [&] { return peer.ending || !peer.waiting.empty(); });
    if (peer.ending) {
      if (channel) std::erase(peer.channels, channel.get());
      --peer.running;
      return;
    }
    const Request request = std::move(peer.waiting.front());
    peer.waiting.pop_front();
    lock.unlock();
    if (!channel || !channel->is_open()) {
      const std::unique_ptr<TcpChannel> before = std::move(channel);
      std::string problem;
      channel = connect_to_node(peer.address, access_, remote::kPeer, problem);
      lock.lock();
      if (channel)
        peer.failing_since.reset();
      else
        note_failure(peer, problem);
      std::erase(peer.channels, before.get());
      if (channel) peer.channels.push_back(channel.get());
      if (channel && peer.ending) channel->shut("the node is gone");
      lock.unlock();
    }
    const auto begin = TcpChannel::Clock::now();
    const Bytes bytes = request(channel.get());
    const std::chrono::nanoseconds took = TcpChannel::Clock::now() - begin;
    lock.lock();
    peer.traffic.bytes += bytes;
    peer.traffic.busy_ns += static_cast<std::uint64_t>(took.count());
  }
}

std::vector<LinkTraffic> PeerLinks::traffic() const {
  std::vector<LinkTraffic> all;
  for (const auto& [node, peer] : peers_) {
    const std::lock_guard lock(peer->mutex);
    all.push_back(peer->traffic);
  }
  return all;
}

void PeerLinks::fetch(NodeId from, const WantedSlice& wanted,
                      std::function<void(std::optional<FetchedSlice>)> done) {
  ask(from, [this, wanted, done = std::move(done)](TcpChannel* channel) {
    auto fetched = std::make_shared<std::optional<FetchedSlice>>();
    if (channel) *fetched = fetch_slice(*channel, silence_, buffers_, wanted);
    const Bytes bytes = *fetched ? (*fetched)->slot.bytes : 0;
    post_([done, fetched] { done(std::move(*fetched)); });
    return bytes;
  });
}

void PeerLinks::fetch(NodeId from, WantedItems wanted,
                      std::function<void(std::optional<FetchedItems>)> done) {
  ask(from, [this, wanted = std::move(wanted), done = std::move(done)](TcpChannel* channel) {
    auto fetched = std::make_shared<std::optional<FetchedItems>>();
    if (channel) *fetched = fetch_items(*channel, silence_, buffers_, wanted);
    const Bytes bytes = *fetched ? (*fetched)->payload.bytes : 0;
    post_([done, fetched] { done(std::move(*fetched)); });
    return bytes;
  });
}

void PeerLinks::keep(NodeId at, KeptItems items, std::function<void()> done) {
  ask(at, [post = post_, silence = silence_, items = std::move(items),
           done = std::move(done)](TcpChannel* channel) {
    if (channel) keep_items(*channel, silence, items);
    Bytes bytes = 0;
    for (const std::uint64_t size : items.sizes) bytes += channel ? size : 0;
    post(done);
    return bytes;
  });
}

// --------------------------------------------------------------------------------- answering ----

void PeerServer::serve(TcpChannel& channel) {
  std::vector<std::byte> request;
  while (read_request(channel, TcpChannel::kNever, request) && answer(channel, request)) {
  }
}

bool PeerServer::answer(TcpChannel& channel, std::span<const std::byte> request) {
  ByteReader in(request);
  const auto ask = static_cast<Ask>(in.u8());
  switch (ask) {
    case Ask::slice: {
      WantedSlice wanted;
      wanted.share = ShareId(in.count32());
      wanted.slot = SlotId(in.count32());
      wanted.from = in.count32();
      wanted.to = in.count32();
      if (in.ok() && in.at_end() && wanted.from < wanted.to) return answer_slice(channel, wanted);
      break;
    }
    case Ask::items: {
      WantedItems wanted;
      wanted.dataset = DatasetId(in.count32());
      wanted.prefix = in.u64();
      wanted.bundle_shift = in.u8();
      if (take_samples(in, wanted.samples) && in.at_end()) return answer_items(channel, wanted);
      break;
    }
    case Ask::records: {
      WantedItems wanted;
      wanted.dataset = DatasetId(in.count32());
      if (take_samples(in, wanted.samples) && in.at_end()) return answer_records(channel, wanted);
      break;
    }
    case Ask::keep:
    case Ask::keep_on_drive: {
      const auto items = std::make_shared<KeptItems>();
      std::uint64_t sum = 0;
      items->dataset = DatasetId(in.count32());
      items->share = ShareId(in.count32());
      items->on_drive = ask == Ask::keep_on_drive;
      items->bundle_shift = in.u8();
      if (take_samples(in, items->samples) &&
          take_sizes(in, items->samples.size(), items->sizes, sum) && in.at_end())
        return take_items(channel, items);
      break;
    }
  }
  channel.shut("a request of another version");
  return false;
}

bool PeerServer::answer_slice(TcpChannel& channel, const WantedSlice& wanted) {
  using Found = std::optional<Backend::BlockView>;
  const auto found = on_service_thread<Found>(
      post_, channel, [this, wanted] { return backend_.block(wanted.share, wanted.slot); });
  if (!found) return false;
  const Found& block = *found;
  std::vector<std::byte> head;
  ByteWriter out(head);
  if (!block || wanted.to > block->layout->samples) {
    out.u8(0);
    return write_head(channel, head);
  }
  out.u8(1);
  out.count(block->pipeline.value);
  out.u64(block->audience);
  const batch::BlockLayout layout(block->spec, wanted.to - wanted.from);
  const batch::BatchParts slot(*block->layout, block->slot.memory(), wanted.from, wanted.to,
                               layout);
  return write_head(channel, head) && channel.write_parts(RemoteKind::payload, slot.parts());
}

bool PeerServer::answer_items(TcpChannel& channel, const WantedItems& wanted) {
  const auto found = on_service_thread<Backend::ItemsView>(
      post_, channel, [this, dataset = wanted.dataset, prefix = wanted.prefix] {
        return backend_.items(dataset, prefix);
      });
  if (!found) return false;
  // Samples are kept in bundles, and asked for as bundles or one by one.
  const std::uint8_t shift = wanted.bundle_shift > 0 ? wanted.bundle_shift : found->bundle_shift;
  std::vector<ItemStore::Item> items;  // that the parts are of
  std::vector<std::optional<std::span<const std::byte>>> all(wanted.samples.size());
  std::vector<SampleId> on_drive;
  for (std::size_t row = 0; row < all.size(); ++row) {
    const SampleId sample = wanted.samples[row];
    if (!found->index || sample.value >= found->index->samples()) continue;
    ItemStore::Item item;
    for (std::size_t i = 0; i < found->shares.size() && !item; ++i)
      item = backend_.kept().store().find(found->shares[i], engine::item_of(sample, shift));
    if (!item) {
      on_drive.push_back(sample);
      continue;
    }
    std::span<const std::byte> bytes = ItemStore::bytes_of(item);
    if (wanted.bundle_shift == 0 && shift > 0) {
      const std::size_t at =
          std::min(bytes.size(), sources::offset_in_bundle(*found->index, shift, sample));
      bytes = bytes.subspan(at, std::min(bytes.size() - at, found->index->extent(sample).bytes));
    }
    all[row] = bytes;
    items.push_back(std::move(item));
  }
  // The drive keeps samples as they are stored, each by itself.
  std::optional<PeerSpill::Found> spilled;
  if (!on_drive.empty() && wanted.prefix == 0 && wanted.bundle_shift == 0 && found->spills) {
    spilled = spill_.read(channel, wanted.dataset, on_drive);
    if (!spilled) return false;
    std::size_t next = 0;
    for (std::size_t row = 0; row < all.size() && next < on_drive.size(); ++row) {
      if (wanted.samples[row] == on_drive[next] && !all[row]) all[row] = spilled->samples[next++];
    }
  }
  std::vector<std::span<const std::byte>> parts;
  std::vector<std::byte> head;
  ByteWriter out(head);
  out.u8(1);
  for (const auto& one : all) {
    out.count(one ? one->size() + 1 : 0);
    if (one) parts.push_back(*one);
  }
  return write_head(channel, head) && channel.write_parts(RemoteKind::payload, parts);
}

// The service's thread only says which feed it is.
bool PeerServer::answer_records(TcpChannel& channel, const WantedItems& wanted) {
  const auto found = on_service_thread<Backend::ItemsView>(
      post_, channel, [this, dataset = wanted.dataset] { return backend_.items(dataset, 0); });
  if (!found) return false;
  std::vector<std::byte> head;
  ByteWriter out(head);
  const auto* const feed = dynamic_cast<const feeds::FeedIndex*>(found->index.get());
  if (!feed || !feed->log()) {
    out.u8(0);
    return write_head(channel, head);
  }
  Bytes sum = 0;
  std::vector<std::optional<feeds::FeedLog::Place>> places;
  for (const SampleId sample : wanted.samples) {
    places.push_back(feed->log()->find(sample.value));
    if (places.back()) sum += places.back()->bytes;
  }
  if (sum > kPayloadMost) {
    channel.shut("it asks for too many records at once");
    return false;
  }
  const Payload payload{buffers_.take(sum), sum};
  Bytes at = 0;
  for (auto& place : places) {
    if (!place) continue;
    if (feed->log()->read(*place, {payload.memory.get() + at, place->bytes})) {
      at += place->bytes;
    } else {
      place.reset();
    }
  }
  out.u8(1);
  for (const auto& place : places) out.count(place ? place->bytes + 1 : 0);
  for (const auto& place : places)
    out.count(place && place->label >= 0 ? static_cast<std::uint64_t>(place->label) + 1 : 0);
  const std::span<const std::byte> bytes(payload.memory.get(), at);
  return write_head(channel, head) && channel.write_parts(RemoteKind::payload, {&bytes, 1});
}

// The service's thread may come to the items when this connection is gone.
bool PeerServer::take_items(TcpChannel& channel, const std::shared_ptr<KeptItems>& items) {
  const auto payload = std::make_shared<Payload>();
  if (!read_payload(channel, buffers_, *payload)) return false;
  std::size_t at = 0;
  for (const std::uint64_t size : items->sizes) {
    if (size > payload->bytes - at) {
      channel.shut("it sends other sizes than it says");
      return false;
    }
    items->parts.emplace_back(payload->memory.get() + at, size);
    at += size;
  }
  bool kept = false;
  if (items->on_drive) {
    kept = spill_.keep(channel, *items);
  } else {
    kept = on_service_thread<bool>(post_, channel, [this, items, payload] {
             backend_.keep(*items);
             return true;
           }).has_value();
  }
  std::vector<std::byte> head;
  ByteWriter(head).u8(1);
  return kept && write_head(channel, head);
}

}  // namespace batchflow::service
