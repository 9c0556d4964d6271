"""What PyTorch's DataLoader gives the same toy jobs: N processes, each with a loader of its own.

    torch_jobs.py --data FOLDER --jobs N --epochs E --batch B --workers W [--float]

Prints one JSON object. Pictures in class folders; random resized crop to 224, flip, uint8 (or
normalised float32), as the pipelines imagenet-train and imagenet-train-f32.
"""
import argparse
import json
import multiprocessing
import time


def train(arguments, barrier, results):
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    if arguments.float:
        steps += [transforms.ToTensor(),
                  transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    else:
        steps += [transforms.PILToTensor()]
    data = datasets.ImageFolder(arguments.data, transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(data, batch_size=arguments.batch, shuffle=True,
                                         num_workers=arguments.workers, persistent_workers=True)
    barrier.wait()
    begin = time.monotonic()
    samples = 0
    for _ in range(arguments.epochs):
        for images, _ in loader:
            samples += len(images)
    results.put((samples, time.monotonic() - begin))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--float", action="store_true")
    arguments = parser.parse_args()
    barrier = multiprocessing.Barrier(arguments.jobs)
    results = multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=train, args=(arguments, barrier, results))
            for _ in range(arguments.jobs)]
    for job in jobs:
        job.start()
    done = [results.get() for _ in jobs]
    for job in jobs:
        job.join()
    print(json.dumps({"samples_per_s": sum(samples / seconds for samples, seconds in done)}))


if __name__ == "__main__":
    main()
