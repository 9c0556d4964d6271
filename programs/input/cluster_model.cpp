#include "programs/input/cluster_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/engine/event.h"

namespace batchflow::input {

namespace {

constexpr std::uint32_t kNodesMost = 100'000;

double rate(config::ConfigSection& section, std::string_view key) {
  return static_cast<double>(section.bytes(key, 0));
}

std::uint32_t count(config::ConfigSection& section, std::string_view key, std::uint32_t fallback,
                    std::int64_t least, std::int64_t greatest) {
  return static_cast<std::uint32_t>(section.integer(key, fallback, least, greatest));
}

// A list of points under `key`; each gives its x under the name `x`.
Curve read_curve(config::ConfigSection& section, std::string_view key, std::string_view x,
                 const std::function<double(config::ConfigSection&)>& y) {
  Curve curve;
  section.sections(key, [&](config::ConfigSection& point) {
    point.require(x, "the x of the point");
    const auto at = static_cast<double>(point.bytes(x, 0));
    if (!curve.empty() && at <= curve.points.back().x) {
      point.refuse(x, "the points of a curve go up", "write them in rising order");
    }
    curve.points.push_back({at, y(point)});
  });
  return curve;
}

DriveModel read_drive(config::ConfigSection& section) {
  DriveModel drive;
  const double constant = rate(section, "bytes_per_s");
  if (constant > 0) drive.bytes_per_s = Curve::constant(constant);
  const Curve curve = read_curve(section, "curve", "readers", [](config::ConfigSection& point) {
    point.require("bytes_per_s", "the rate of these readers together");
    return static_cast<double>(point.bytes("bytes_per_s", 0, 1));
  });
  if (!curve.empty() && constant > 0) {
    section.refuse("curve", "the rate is given twice", "write bytes_per_s or curve");
  }
  if (!curve.empty()) drive.bytes_per_s = curve;
  drive.reader_bytes_per_s = rate(section, "reader_bytes_per_s");
  drive.latency = section.duration("latency", drive.latency);
  drive.latency_spread = read_spread(section, "latency");
  drive.pauses.spread = read_spread(section, "pause");
  drive.pauses.share = section.number("pause_share", 0, 0, 1);
  drive.pauses.length_s =
      std::chrono::duration<double>(section.duration("pause", Duration(0))).count();
  drive.operations_ahead = count(section, "operations_ahead", drive.operations_ahead, 1, 65536);
  drive.operations_per_s = section.number("operations_per_s", 0);
  drive.efficiency = read_curve(section, "efficiency", "bytes", [](config::ConfigSection& point) {
    return point.number("efficiency", 1, 1e-6, 1);
  });
  drive.queue = count(section, "queue", drive.queue, 0, 65536);
  return drive;
}

OtherLoad read_load(config::ConfigSection& store) {
  OtherLoad load;
  store.sections("load", [&](config::ConfigSection& entry) {
    OtherLoad::Part part;
    part.at = entry.duration("at", part.at);
    entry.require("part", "the part of the store that others take, as 30%");
    part.part = value_of(entry.ratio("part", Ratio{}));
    if (part.part >= 1) entry.refuse("part", "nothing is left", "write less than 100%");
    if (!load.parts.empty() && part.at <= load.parts.back().at)
      entry.refuse("at", "the one before is as late", "write them in rising order");
    load.parts.push_back(part);
  });
  load.period = store.duration("load_period", load.period);
  if (load.period.count() > 0 && !load.parts.empty() &&
      load.period <= load.parts.back().at - load.parts.front().at)
    store.refuse("load_period", "it ends before the last part begins", "write a longer one");
  return load;
}

RequestModel read_requests(config::ConfigSection& store) {
  RequestModel requests;
  store.section("requests", [&](config::ConfigSection& section) {
    requests.failed = value_of(section.ratio("failed", Ratio{}));
    if (requests.failed > 0.9)
      section.refuse("failed", "hardly any request is answered", "write 90% at most");
    requests.retry_after = section.duration("retry_after", std::chrono::milliseconds(100));
    requests.price_per_million = section.number("price_per_million", 0, 0, 1e9);
  });
  return requests;
}

OverheadModel read_overhead(config::ConfigSection& node) {
  OverheadModel overhead;
  node.section("overhead", [&](config::ConfigSection& section) {
    overhead.read = section.duration("read", overhead.read);
    overhead.read_ns_per_byte = section.number("read_ns_per_byte", 0, 0, 1e6);
    overhead.touch_ns_per_byte = section.number("touch_ns_per_byte", 0, 0, 1e6);
    overhead.send_ns_per_byte = section.number("send_ns_per_byte", 0, 0, 1e6);
    overhead.receive_ns_per_byte = section.number("receive_ns_per_byte", 0, 0, 1e6);
    overhead.block = section.duration("block", overhead.block);
    overhead.batch = section.duration("batch", overhead.batch);
    overhead.ns_per_sample = section.number("ns_per_sample", 0, 0, 1e12);
    overhead.wake = section.duration("wake", overhead.wake);
    overhead.step = section.duration("step", overhead.step);
  });
  return overhead;
}

// The index of the link of that name; -1 when none is named.
int find_link(config::ConfigSection& section, std::string_view key,
              const std::vector<LinkModel>& links) {
  const std::string name = section.text(key, "");
  if (name.empty()) return -1;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i].name == name) return static_cast<int>(i);
    names.push_back(links[i].name);
  }
  const std::string nearest = nearest_name(name, names);
  section.refuse(key, fmt::format("there is no link '{}'", name),
                 nearest.empty() ? "name one under links" : fmt::format("write '{}'", nearest));
}

std::string required_name(config::ConfigSection& section) {
  section.require("name", "the name that others use");
  const std::string name = section.text("name", "");
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!plain || name.size() > 100) {
    section.refuse("name", fmt::format("'{}' is not a name", name.substr(0, 60)),
                   "write letters, digits, '-', '_' and '.'");
  }
  return name;
}

std::vector<LinkModel> read_links(config::ConfigSection& section) {
  std::vector<LinkModel> links;
  section.sections("links", [&](config::ConfigSection& link) {
    LinkModel model;
    model.name = required_name(link);
    model.bytes_per_s = rate(link, "bytes_per_s");
    model.latency = link.duration("latency", model.latency);
    link.text("up", "");
    for (const LinkModel& other : links) {
      if (other.name == model.name) link.refuse("name", "two links have it", "rename one");
    }
    links.push_back(model);
  });
  // Now all links have names.
  std::size_t index = 0;
  section.sections("links", [&](config::ConfigSection& link) {
    for (const char* key : {"name", "bytes_per_s", "latency"}) link.has(key);
    links[index].up = find_link(link, "up", links);
    std::size_t steps = 0;
    for (int at = links[index].up; at >= 0; at = links[static_cast<std::size_t>(at)].up) {
      if (++steps <= index + 1 && at != static_cast<int>(index)) continue;
      link.refuse("up", fmt::format("link '{}' leads back to itself", links[index].name),
                  "links form a tree: leave out `up` where all meet");
    }
    ++index;
  });
  return links;
}

// The part of a machine's memory or drive that BatchFlow may use: never more than there is.
Bytes read_part(config::ConfigSection& section, std::string_view key, Bytes whole,
                std::string_view what) {
  const Size size = section.size(key, {true, 0, {Ratio::kWhole}});
  if ((size.relative && size.ratio.parts > Ratio::kWhole) || size.bytes_of(whole) > whole) {
    section.refuse(key, fmt::format("more than the {} bytes of the node's {}", whole, what),
                   "write less, as 80%");
  }
  return size.bytes_of(whole);
}

GpuModel read_gpu(config::ConfigSection& section, const NodeModel& node) {
  GpuModel gpu;
  section.section("gpu", [&](config::ConfigSection& of_gpu) {
    if (node.gpus == 0)
      section.refuse("gpu", "the node has no GPU", "write gpus: 1, or leave it out");
    if (node.gpus > engine::kGpusMost)
      section.refuse("gpu", fmt::format("the node has {} GPUs", node.gpus),
                     fmt::format("write at most {} GPUs a node", engine::kGpusMost));
    const Size size = of_gpu.size("cache", {false, 0, {}});
    if (size.relative && node.gpu_memory == 0)
      of_gpu.refuse("cache", "a part of a memory that is not known", "write bytes, or gpu_memory");
    if (node.gpu_memory > 0) {
      gpu.cache = size.bytes_of(node.gpu_memory);
      if (gpu.cache > node.gpu_memory)
        of_gpu.refuse("cache", fmt::format("more than the {} bytes of gpu_memory", node.gpu_memory),
                      "write less, as 20%");
    } else {
      gpu.cache = size.bytes;
    }
    gpu.pcie_bytes_per_s = rate(of_gpu, "pcie_bytes_per_s");
    gpu.copy_engines = count(of_gpu, "copy_engines", gpu.copy_engines, 1, 64);
  });
  return gpu;
}

NodeModel read_node(config::ConfigSection& section, const std::vector<LinkModel>& links) {
  NodeModel node;
  node.name = required_name(section);
  node.cores = count(section, "cores", node.cores, 1, 65536);
  node.gpus = count(section, "gpus", node.gpus, 0, 65536);
  node.processors = count(section, "processors", node.processors, 0, 65536);
  node.workers_help = section.flag("workers_help", node.workers_help);
  node.overhead = read_overhead(section);
  node.core_speed = section.number("core_speed", 1, 1e-6, 1e6);
  node.gpu_speed = section.number("gpu_speed", 1, 1e-6, 1e6);
  section.require("memory", "the node's memory, as 64gb");
  node.memory = section.bytes("memory", 0, 1);
  node.cache = read_part(section, "cache", node.memory, "memory");
  node.memory_bytes_per_s = rate(section, "memory_bytes_per_s");
  node.pcie_bytes_per_s = rate(section, "pcie_bytes_per_s");
  node.nic_bytes_per_s = rate(section, "nic_bytes_per_s");
  node.nic_latency = section.duration("nic_latency", node.nic_latency);
  node.link = find_link(section, "link", links);
  node.store_weight = section.number("store_weight", 1, 1e-6, 1e6);
  node.gpu_memory = section.bytes("gpu_memory", node.gpu_memory, 0);
  node.gpu = read_gpu(section, node);
  section.section("nvme", [&](config::ConfigSection& nvme) {
    nvme.require("size", "the bytes that it holds");
    const Bytes size = nvme.bytes("size", 0, 1);
    node.nvme = read_part(nvme, "cache", size, "drive");
    node.nvme_drive = read_drive(nvme);
    node.nvme_drive.write_bytes_per_s = rate(nvme, "write_bytes_per_s");
  });
  return node;
}

PricesModel read_prices(config::ConfigSection& section) {
  constexpr double kMost = 1e9;
  PricesModel prices;
  prices.currency = section.text("currency", "");
  if (prices.currency.size() > 10)
    section.refuse("currency", "more than ten letters", "write a short one, as USD");
  prices.node_hour = section.number("node_hour", 0, 0, kMost);
  prices.gpu_hour = section.number("gpu_hour", 0, 0, kMost);
  prices.core_hour = section.number("core_hour", 0, 0, kMost);
  prices.memory_gb_hour = section.number("memory_gb_hour", 0, 0, kMost);
  prices.cache_gb_hour = section.number("cache_gb_hour", 0, 0, kMost);
  prices.nvme_gb_hour = section.number("nvme_gb_hour", 0, 0, kMost);
  return prices;
}

}  // namespace

double ClusterModel::price_per_hour() const {
  if (!prices) return 0;
  double sum = 0;
  for (const NodeModel& node : nodes) {
    sum += prices->node_hour + prices->gpu_hour * node.gpus + prices->core_hour * node.cores +
           1e-9 * (prices->memory_gb_hour * static_cast<double>(node.memory) +
                   prices->cache_gb_hour * static_cast<double>(node.cache) +
                   prices->nvme_gb_hour * static_cast<double>(node.nvme));
  }
  return sum;
}

std::uint32_t ClusterModel::gpus() const {
  std::uint32_t all = 0;
  for (const NodeModel& node : nodes) all += node.gpus;
  return all;
}

int ClusterModel::node(std::string_view wanted) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == wanted) return static_cast<int>(i);
  }
  return -1;
}

ClusterModel read_cluster(config::ConfigSection& section) {
  ClusterModel cluster;
  section.text("kind", "cluster");
  section.text("about", "");
  cluster.name = section.text("name", "");
  cluster.links = read_links(section);
  section.require("nodes", "a list of nodes");
  std::unordered_set<std::string> names;  // looked up alone
  section.sections("nodes", [&](config::ConfigSection& entry) {
    const NodeModel node = read_node(entry, cluster.links);
    const std::uint32_t copies = count(entry, "count", 1, 1, kNodesMost);
    for (std::uint32_t i = 0; i < copies; ++i) {
      NodeModel copy = node;
      if (copies > 1) copy.name += fmt::format("-{}", i);
      if (!names.insert(copy.name).second) entry.refuse("name", "two nodes have it", "rename one");
      cluster.nodes.push_back(std::move(copy));
    }
  });
  if (cluster.nodes.empty()) section.refuse("nodes", "the list is empty", "name at least one");
  section.section("store", [&](config::ConfigSection& store) {
    cluster.store = read_drive(store);
    cluster.store_nic_bytes_per_s = rate(store, "nic_bytes_per_s");
    cluster.store_link = find_link(store, "link", cluster.links);
    cluster.store.write_bytes_per_s = rate(store, "write_bytes_per_s");
    cluster.store_load = read_load(store);
    cluster.store_requests = read_requests(store);
  });
  section.section("prices",
                  [&](config::ConfigSection& prices) { cluster.prices = read_prices(prices); });
  return cluster;
}

}  // namespace batchflow::input
