// MinIO: J. Mohan, A. Phanishayee, A. Raniwala, V. Chidambaram, "Analyzing and Mitigating Data
// Stalls in DNN Training" (CoorDL), VLDB 2021. One job that reads a permutation an epoch cannot do
// better.
#include "policies/eviction_minio.h"

#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {

extern const engine::PolicyEntry eviction_minio;
constexpr engine::PolicyEntry eviction_minio{
    .name = "minio",
    .help =
        "Fills, then neither inserts nor evicts.\n"
        "The best there is for one job that reads each sample once an epoch\n"
        "(CoorDL, VLDB 2021). Where runs are shuffled, a run takes the room of\n"
        "the run that was read to its end last.",
    .make = &make_eviction<MinIo>,
    .ignores_hits = true};

}  // namespace batchflow::policies
