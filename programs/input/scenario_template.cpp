#include "programs/input/scenario.h"

namespace batchflow::input {

// Every key with its default, or with an example where it has none; a test reads it.
std::string scenario_template() {
  return R"(# A scenario of BatchFlow's simulator. Keys that are left out have the values that stand here,
# but for those marked as examples.
kind: scenario
name: example
about: what it is for
seed: 1                 # of everything that varies
ends_after: 0s          # of simulated time; 0s: when all jobs are done
warm_up: 0s             # of simulated time, which the figures over all jobs leave out

cluster:                # or the name or path of a cluster, as `cluster: laptop`
  name: example
  links: []             # example: [{name: rack, bytes_per_s: 10gb, latency: 1us, up: spine}, ...]
  nodes:
    - name: node        # node-0, node-1, ... where count is above 1
      count: 1
      cores: 8          # for preparation (default 1)
      gpus: 4           # (default 1)
      processors: 0     # that preparation, reads, hand-over and loaders share; 0: cores prepare alone
      workers_help: false  # true, as in the service: all prepare the first block, then the next
      overhead: {}      # example: {read: 12us, read_ns_per_byte: 0.1, touch_ns_per_byte: 0.2, block: 50us,
                        #           batch: 30us, ns_per_sample: 100, wake: 50us, step: 60us,
                        #           send_ns_per_byte: 0.3, receive_ns_per_byte: 0.4}
      core_speed: 1     # preparation costs are divided by it
      gpu_speed: 1      # step times are divided by it
      memory: 64gb      # example
      cache: 100%       # of it, for prepared blocks and caches
      memory_bytes_per_s: 0   # 0: no limit; also for the rates below
      pcie_bytes_per_s: 0
      nic_bytes_per_s: 0      # each way
      nic_latency: 0s
      link: ''                # the link its network card leads to; '': all meet
      gpu_memory: 0           # of each GPU; 0: enough for all batches
      store_weight: 1         # of its readers, where those of several nodes share the store
      # gpu: {cache: 20gb, pcie_bytes_per_s: 55gb, copy_engines: 1}
      #                         # of each GPU; cache: of gpu_memory, for decoded samples
      # nvme: {size: 1tb, cache: 100%, bytes_per_s: 3gb, write_bytes_per_s: 2gb, latency: 80us}
      #                         # and what a store has
  store:
    bytes_per_s: 0      # of all readers together; or a curve over how many there are:
    curve: []           # example: [{readers: 1, bytes_per_s: 330mb}, {readers: 8, bytes_per_s: 2870mb}]
    reader_bytes_per_s: 0
    latency: 0s         # of one operation
    latency_shape: lognormal  # or exponential, normal, uniform
    latency_jitter: 0   # standard deviation / mean
    pause: 0s           # that an operation now and then takes longer: the tail
    pause_share: 0      # of the operations
    pause_shape: lognormal    # or exponential, normal, uniform
    pause_jitter: 0
    operations_ahead: 1 # that one reader has under way at once
    operations_per_s: 0 # metadata, of all together
    queue: 0            # operations of a node at once, first come, first served; 0: all share
    efficiency: []      # example: [{bytes: 4kb, efficiency: 0.2}, {bytes: 1mb, efficiency: 1}]
    write_bytes_per_s: 0      # of checkpoints; 0: they share the rate of reads
    nic_bytes_per_s: 0
    link: ''
    load: []            # example: [{at: 0s, part: 0%}, {at: 10min, part: 40%}]: what others take
    load_period: 0s     # after which it comes again; 0s: never
    requests: {}        # example: {failed: 0.1%, retry_after: 100ms, price_per_million: 0.4}
  prices:               # of an hour, for figures of cost; without them there are none
    currency: ''        # example: USD
    node_hour: 0
    gpu_hour: 0
    core_hour: 0
    memory_gb_hour: 0   # a GB is 10^9 bytes
    cache_gb_hour: 0    # of the part of memory for blocks and caches, beside memory_gb_hour
    nvme_gb_hour: 0     # of the part of drives for caches

# workload: w1-imagenet # brings the datasets, pipelines and jobs below from configs/workloads
datasets:               # examples
  - name: images
    samples: 51200
    bytes: 115kb        # of a stored sample, mean
    bytes_shape: lognormal
    bytes_jitter: 0
    format: jpeg        # or raw (default)
    # read_bytes: 120kb # that reading a sample alone takes of the store; bytes unless said
    opens: 0s           # until the first job can begin
    bundle: 0           # bytes in which small samples are read and kept, as 64kb; 0: each alone
  # - {name: none, samples: 51200, compute_only: true}   # made where it is used: nothing is moved
  # - name: clicks      # grows while jobs read it, to so many records
  #   samples: 1000000
  #   bytes: 1kb
  #   live:
  #     arrivals: poisson       # or even, bursts, recorded
  #     per_s: 1000             # records a second; of bursts, while they last
  #     burst: 1s               # bursts: how long they are, and the pauses between them, mean
  #     pause: 4s
  #     recorded: rates.csv     # lines as 60,1500: from 60 s on, 1500 records a second
  #     ends_after: 0s          # 0s: when all samples have come
  #     lag: 0s                 # from where a record is made to the log
  #     lag_shape: lognormal
  #     lag_jitter: 0
  #     lost: 0%                # of records, on their way
  #     late_after: 0s          # records that are so much older than the newest are left out; 0s: none
  #     keep: 1gib              # by the log
  #     can_wait: true          # producers wait where it is nearly full; false: records are left out
  #     sync: 1ms               # until what was written is durable
  #     classes: 0
  #     class_every: 0          # records after which the next class comes; 0: classes at random

pipelines:              # examples; sizes and costs are of one sample, on one core
  - name: train
    cost_shape: lognormal
    cost_jitter: 0
    slow:               # samples that take longer than the steps say, the same ones each time
      fraction: 0
      times: 1
    steps:
      - {name: decode, random: false, cost: 1.2ms, ns_per_byte: 0, output: 588kb}
      # kept: false for a step (default true): no form is kept beyond it
      - {name: crop, random: true, cost: 400us, output: 150528}  # bytes, or of its input: 25%

jobs:
  - name: job           # job-0, job-1, ... where count is above 1
    count: 1
    every: 0s           # between the arrivals of one and the next
    every_shape: constant     # or exponential
    user: user
    dataset: images     # example
    pipeline: train     # example
    order: relaxed      # or strict, sequential, weighted; listed: the job asks for the samples of
    #   each batch, which come as they are stored, from a pipeline with steps: []
    # shuffle_seed: 7   # jobs with the same one share an order
    node_local: false   # relaxed: each block is for the ranks of one node
    runs: false         # relaxed: shuffles bundles of the dataset, and samples near one another
    # mixture: {sources: 10, skew: 1, draws: 0, change_every: 0}   # instead of order: parts of the
    #   dataset, the i-th of which weighs 1 / i^skew; so many draws an epoch (0: as many as there
    #   are samples); after so many draws each part gets the weight of the next (0: never);
    #   schedule: [{at: 5000, skew: 0}] gives them other weights from a sample of the job on;
    #   policy: excess-loss goes by losses: {from: 3, to: 1, half_after: 100000, spread: 0}, of
    #   which half is gone after so many samples of the first part, of the i-th i^spread times that
    # rehearsal: {samples: 16, exemplars: 2000}   # samples of each batch, drawn from exemplars; with
    #   policy: reservoir, the engine fills the buffer with what the job has had
    # live: {wait: 200ms, fill: rehearse, window: 4096, begin: oldest}   # of a dataset that grows: after
    #   so long without enough records a batch is filled from the last 4096 (or fill: short, none);
    #   with rehearsed: 16, so many of each batch are such records, however many have come; with
    #   exemplars: 4096 instead of window, these are drawn from so many of all that the job has had
    importance:         # weighted: the scores that the job reports, of a lognormal distribution
      spread: 0         # deviation of their logarithm; 0: none are reported
      drift: 0          # the part of it that each epoch draws anew, from 0 to 1
      recorded: ''      # instead: a file that record_scores() of a Python loader has written
    batch: 128          # of one rank (default 1)
    drop_last: false
    epochs: 1
    steps: 0            # after which it is done; 0: when its epochs are
    credits: 0          # batches a rank may hold or have asked for; 0: engine.credits
    weight: 1
    latency_target: 0s  # how long the job may wait for a batch; others are served before it
    ranks: 1            # a GPU each
    nodes: []           # where, in turn; []: wherever GPUs are free
    step: 100ms         # example: of a GPU on one batch
    step_shape: lognormal
    # step_jitter: 0    # of a rank beside the others; jitter.step of all ranks unless said
    loader: {}          # example: {step: 1ms, ns_per_sample: 20000}: of its own loader
    gpu_bytes: 0        # that training takes of each GPU's memory
    exchange: {}        # example: {bytes: 100mb, after: 50%}: of gradients, between its nodes
    checkpoint: {}      # example: {every: 1000, bytes: 1gb, waits: true}: steps; into the store, and back after a loss
    validation: {}      # example: {dataset: images, pipeline: train, batch: 256, step: 30ms, every: 1}
    arrives: 0s
    arrives_jitter: 5ms # it comes later by at most that much; jitter.arrival unless said
    start_up: 0s        # from getting its GPUs to its first request
    leaves_after: 0s    # of running; 0s: when its epochs are done

engine:                 # as in configs/engine/default.yaml
  preset: default

jitter:                 # of what says nothing itself; 0 for runs that are all alike
  arrival: 5ms
  step: 0.01            # of the steps of a job, the same for all its ranks

grain:
  samples_per_item: 1   # above 1, the engine counts items of this many samples
  items_per_block: 0    # 0: as many as fit engine.block_bytes
  epochs_per_block: 1   # above 1, for datasets no larger than a block: epochs of a block

after_loss: waits       # of a job that loses a node, until it is back; or moves, to other GPUs
faults: []              # examples; at: 0s, and lasts: 0s (for good) or until: a time, for each
  # - {kind: node-lost, target: node, at: 60s, lasts: 3s, detected_after: 0s}  # engine.rank_timeout
  # - {kind: worker-lost, target: node, count: 1, detected_after: 0s, quiet_after: 0s}
  # - {kind: worker-slow, target: node, count: 1, factor: 0.5}    # of its speed
  # - {kind: drive-lost, target: node}               # its NVMe drive; or store
  # - {kind: drive-slow, target: store, factor: 0.5} # or a node's NVMe drive
  # - {kind: link-down, target: rack, timeout: 30s}  # or a node, or store: their network cards
  # - {kind: link-slow, target: rack, factor: 0.1}
  # - {kind: reads-failed, target: store, ratio: 1%} # or a node's NVMe drive
  # - {kind: corrupt-samples, target: images, count: 3}
)";
}

}  // namespace batchflow::input
