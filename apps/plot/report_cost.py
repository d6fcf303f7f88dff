"""What a run costs: the partition and its memory, time, traffic, and the schedule of a traced pipeline."""

from collections import Counter

from report_html import (brief, duration, element, legend, number, percent, plural, scaled, section, size,
                         table)
from report_svg import bar_chart, gantt_chart, share_bar, swatch

MEMORY = (("parameter_bytes", "parameters", "c1"), ("gradient_bytes", "gradients", "c6"),
          ("optimiser_bytes", "optimiser", "c5"), ("activation_bytes", "activations", "c3"),
          ("buffer_bytes", "buffers", "c4"))
MOST_RANKS = 16         # in the chart of memory; the table has all
MOST_OPERATIONS = 2000  # in the chart of the schedule
OPERATIONS = {"F": ("forward", "c1"), "B": ("backward", "c5"), "update": ("sum and update", "c3")}
FIELDS = ("units", "width", "channels", "heads")


def box():
    return swatch("box")


def layer_text(layer, repeats):
    """Such as "dense 256 x 3"."""
    sizes = [str(layer[key]) for key in FIELDS if isinstance(layer.get(key), int) and layer[key] > 0]
    return " ".join([str(layer.get("type", "?")), *sizes[:1]]) + (f" \u00d7 {repeats}" if repeats > 1 else "")


def layers_text(deck, first, last):
    """Describes the layers first .. last of the network, some of which the deck names once and repeats."""
    found = [layer_text(layer, min(end, last + 1) - max(begin, first)) for begin, end, layer in
             (deck.layers() if deck else []) if begin <= last and end > first]
    return ", ".join(found)


def span_text(first, last):
    return str(first) if first == last else f"{first}\u2013{last}"


class Stage:
    """An entry of `partition` in summary.json."""

    def __init__(self, run, index):
        self.index, self.key = index, f"partition.{index}"
        self.rank, self.first, self.last, self.parameters, self.flops, self.offloaded, *memory = (
            run.number(f"{self.key}.{name}") for name in ("rank", "layers.0", "layers.1", "parameters",
                                                          "flops_per_sample", "offloaded_bytes",
                                                          *(key for key, _, _ in MEMORY)))
        self.memory = memory
        self.whole = None not in (self.rank, self.first, self.last, self.parameters, self.flops, *memory)


def stages_of(run):
    """The stages; empty if the summary does not describe all of them."""
    stages = [Stage(run, index) for index in range(run.summary.length("partition"))] if run.summary else []
    return stages if stages and all(stage.whole and stage.rank >= 0 for stage in stages) else []


def groups_of(stages):
    """How many ranks the stages of one replica are on; workers begin at rank 1."""
    return len({stage.rank for stage in stages})


def copies_of(run):
    """On how many ranks each stage is: its replicas, and their parts."""
    return int((run.number("grid.replicas") or 1) * (run.number("grid.parts") or 1))


def stage_table(run, stages):
    copies, groups = copies_of(run), groups_of(stages)
    exits = run.summary.length("stage_alone") == len(stages)
    key = "stage_alone" if exits else "stage_accuracy"
    alone = run.summary.length(key) == len(stages) > 1
    rows = []
    for stage in stages:
        ranks = [int(stage.rank) + groups * copy for copy in range(min(copies, 9))]
        layers = element("span", element("b", span_text(int(stage.first), int(stage.last))),
                         f"\u2002{layers_text(run.deck, stage.first, stage.last)}")
        accuracy = f"{key}.{stage.index}"
        rows.append([str(stage.index + 1), ", ".join(map(str, ranks[:8])) + (", \u2026" if len(ranks) > 8 else ""),
                     layers, number(stage.parameters, scaled, f"{stage.key}.parameters"),
                     number(stage.flops, scaled, f"{stage.key}.flops_per_sample"),
                     *([number(run.number(accuracy), percent, accuracy)] if alone else [])])
    heads = ["stage", "rank" if copies == 1 else "ranks", "layers", "parameters", "FLOP/sample",
             *(["test accuracy"] if alone else [])]
    sums = ["all", "", "", number(run.number("parameters"), scaled, "parameters"),
            number(sum(stage.flops for stage in stages), scaled), *([""] if alone else [])]
    caption = "Stages: their layers, and what they cost" + ("; accuracy of their own predictions" if alone else "")
    return table(caption, heads, rows, sums if len(rows) > 1 else None, texts=(0, 1, 2),
                 folded=f"{len(rows)} stages as numbers")


def planned_by_rank(stages, copies):
    """rank -> bytes of each kind, summed over the stages of the rank."""
    groups = groups_of(stages)
    planned = {}
    for stage in stages:
        for copy in range(copies):
            rank = int(stage.rank) + groups * copy
            planned[rank] = [a + b for a, b in zip(planned.get(rank, [0] * len(MEMORY)), stage.memory)]
    return planned


def memory_bars(run, planned, ranks):
    rows = []
    for rank in ranks[:MOST_RANKS]:
        if rank in planned:
            segments = [(colour, value, f"rank {rank}, {name}: {size(value)}")
                        for (_, name, colour), value in zip(MEMORY, planned[rank])]
            rows.append((f"rank {rank}", segments, size(sum(planned[rank]))))
        peak = run.number(f"peak_device_bytes.{rank}")
        if peak is not None:
            rows.append(("" if rank in planned else f"rank {rank}",
                         [("hollow", peak, f"rank {rank}, measured peak: {size(peak)}")], size(peak)))
    kinds = [(colour, box(), name, None) for _, name, colour in MEMORY] if planned else []
    return element("figure", element("h3", "Memory of each rank"),
                   legend([*kinds, ("hollow", box(), "measured", None)]),
                   bar_chart(rows, "Memory of each rank, as planned and as measured; the table below has the numbers",
                             lambda value: brief(value, "B")))


def memory_table(run, planned, ranks):
    rows = []
    for rank in ranks:
        kinds = planned.get(rank, [None] * len(MEMORY))
        total = sum(kinds) if rank in planned else None
        rows.append([str(rank), *(number(value, size) for value in kinds), number(total, size),
                     *(number(run.number(f"{key}.{rank}"), size, f"{key}.{rank}")
                       for key in ("peak_device_bytes", "peak_rss_bytes"))])
    heads = ["rank", *(name for _, name, _ in MEMORY), "planned", "measured", "process"]
    if not planned:
        rows, heads = [[row[0], *row[-2:]] for row in rows], ["rank", "measured", "process"]
    return table("Bytes by rank: planned for its stages; measured peak of all Kokkos memory, with data sets and "
                 "set-up; peak of the process", heads, rows, folded=f"{len(rows)} ranks as numbers")


def partition_section(run):
    if run.summary is None:
        return None
    stages, ranks = stages_of(run), list(range(run.summary.length("peak_device_bytes")))
    planned = planned_by_rank(stages, min(copies_of(run), len(ranks) or 1))
    parts = [stage_table(run, stages)] if stages else \
        [element("p", "The summary does not list the stages: it was written by an earlier version.", class_="quiet")]
    speedup = run.number("allowed_speedup")
    if speedup is not None and len(stages) > 1:
        shared, copies = int(run.number("grid.parts") or 1), int(run.number("grid.replicas") or 1)
        parts.append(element("p", f"The cuts allow {'each replica ' if copies > 1 else ''}a speed-up of ",
                             number(speedup, lambda value: f"{value:.2f}", "allowed_speedup"),
                             f" over {f'{shared} ranks that share all layers' if shared > 1 else 'one rank'}",
                             " if each stage has a rank and all train at once."
                             if run.summary.text("strategy") == "sil" else " with these microbatches."))
    if ranks:
        drawn = element("p", f"The first {MOST_RANKS} of {len(ranks)} ranks are drawn.", class_="quiet")
        parts += [memory_bars(run, planned, ranks), drawn if len(ranks) > MOST_RANKS else None,
                  memory_table(run, planned, ranks)]
    offloaded = sum(stage.offloaded or 0 for stage in stages)
    if offloaded:
        parts.append(element("p", "Optimiser state outside the device: ", number(offloaded, size), "."))
    return section("partition", "Partition and memory", *parts)


def time_section(run):
    train, evaluation = run.number("train_seconds"), run.number("evaluation_seconds")
    if train is None or evaluation is None:
        return None
    phases = [("training", "c1", train, "train_seconds"), ("evaluation", "c5", evaluation, "evaluation_seconds")]
    rest = run.history.seconds - train - evaluation if run.history else 0.0
    if 0.0 < rest < 1e9:
        phases.append(("rest", "c8", rest, None))
    whole = sum(value for _, _, value, _ in phases) or 1.0
    most = max(value for _, _, value, _ in phases)
    rows = [[name, share_bar(colour, value, most), number(value, duration, key), number(value / whole, percent)]
            for name, colour, value, key in phases]
    about = "Rest: what else the run did up to its last row of the history, such as waiting for checkpoints." \
        if len(phases) > 2 else None
    return section("time", "Time", table("Wall time by phase", ["phase", "", "time", "share"], rows, texts=(0, 1)),
                   element("p", about, class_="quiet") if about else None)


def traffic_section(run):
    kinds = (("between stages", "c1", "bytes_between_stages", "train_seconds"),
             ("between replicas", "c5", "bytes_between_replicas", "train_seconds"),
             ("between parts", "c4", "bytes_between_parts", "train_seconds"),
             ("evaluation", "c3", "bytes_evaluation", None))  # the last one counts, but its seconds do not
    found = [(name, colour, run.number(key), key, seconds and run.number(seconds))
             for name, colour, key, seconds in kinds]
    found = [entry for entry in found if entry[2] is not None]
    if not found:
        return None
    if not any(value for _, _, value, _, _ in found):
        return section("traffic", "Traffic", element("p", "No rank sent anything to another rank."))
    most = max(value for _, _, value, _, _ in found)
    rows = [[name, share_bar(colour, value, most), number(value, size, key),
             number(value / seconds, lambda rate: scaled(rate, "B/s")) if seconds else number(None)]
            for name, colour, value, key, seconds in found]
    path = run.summary.text("provenance.messages")
    return section("traffic", "Traffic",
                   table("Payload that all ranks together have sent", ["what", "", "bytes", "mean rate"], rows,
                         texts=(0, 1)),
                   element("p", f"Messages travel {path}.", class_="quiet") if path else None)


def schedule_section(run):
    trace = run.trace
    if trace is None:
        return None
    length, by_time = trace.length(), sorted(trace.events, key=lambda event: event[3])
    shown = by_time[:MOST_OPERATIONS]
    end = max(begin + time for _, _, _, begin, time in shown)
    events = []
    for row, what, name, begin, time in shown:
        kind, colour = OPERATIONS.get(what, (what, "c8"))
        inside = name[len(what):] if name.startswith(what) and what in ("F", "B") else ""
        title = f"{kind} {inside}".strip() + f", {trace.label(row)}\n{time:.3f} ms from {begin:.3f} ms"
        events.append((row, colour, inside, title, begin, time))
    labels = [trace.label(row) for row in range(len(trace.rows))]
    spent = Counter()
    for row, what, _, _, time in trace.events:
        spent[row, what] += time
    kinds = sorted({what for _, what in spent}, key=lambda what: [*OPERATIONS, what].index(what))
    names = [OPERATIONS.get(what, (what, "c8")) for what in kinds]
    rows = [[label, *(number(spent[row, what], lambda value: f"{value:.3f}") for what in kinds),
             number(sum(spent[row, what] for what in kinds) / length if length else None, percent)]
            for row, label in enumerate(labels)]
    parts = [element("figure", element("h3", "Operations in time", element("small", "numbers are microbatches")),
                     legend([(colour, box(), name, None) for name, colour in names]),
                     gantt_chart(labels, events, end, f"Operations of {plural(len(labels), 'rank')} in time; "
                                 "the table below has their sums")),
             table(f"Milliseconds by operation, of {length:.3f} ms that were traced",
                   ["rank", *(name for name, _ in names), "at work"], rows, folded=f"{len(rows)} ranks as numbers")]
    if len(shown) < len(by_time):
        parts.append(element("p", f"The first {len(shown)} of {len(by_time)} operations are drawn.", class_="quiet"))
    return section("schedule", "Schedule", *parts)
