"""Sentences on word vectors, joint models, the augmented loss and translation state what was measured."""

import statistics
from functools import cache
from itertools import permutations

import pytest

from benchmarks.run import RESULTS as BENCHMARKS
from keras_tying.zoo.recipes import load_recipe
from studies.results import read_seeds
from tests.studies.claims import COMMITS_THAT_STARTED_ALIKE, ZOO, check, commits, results

TEXT8_WORDS = 17_005_207


@cache
def joint_cells(grid):
    """The joint models of a grid, by name."""
    return results(f"nnjm_{grid}")["cells"]


def gain(grid, cell, other, split="test"):
    """By how many percent the mean perplexity of a cell is lower than that of another."""
    cells = joint_cells(grid)
    one, two = (statistics.mean(run[split] for run in cells[name]["runs"].values()) for name in (cell, other))
    return 100 * (1 - one / two)


def worse(grid, cell, other):
    """Whether every seed of a joint model has a higher test perplexity than every seed of another."""
    one, two = ([run["test"] for run in joint_cells(grid)[name]["runs"].values()] for name in (cell, other))
    return min(one) > max(two)


def embeddings_claims():
    found = read_seeds(ZOO / "results", "embeddings_trained_word2vec")
    assert len(found) == 3
    sets = [*found[0]["word_similarity"], "mean"]

    def seeds(name, role):
        """The correlations of all seeds with a set of word pairs, or their means over the sets."""
        rho = [[each["word_similarity"][one][role]["spearman"] for one in sets[:-1]] for each in found]
        return [statistics.mean(each) if name == "mean" else each[sets.index(name)] for each in rho]

    def higher(name, one, other):
        return min(seeds(name, one)) > max(seeds(name, other))

    def alike(name, one, other):
        return not higher(name, one, other) and not higher(name, other, one)

    for name in sets:
        if name != "Rare-Word":
            assert higher(name, "input", "output")
            assert higher(name, "input", "tied")
    assert alike("Rare-Word", "input", "output")
    assert higher("Rare-Word", "output", "tied")
    assert higher("Rare-Word", "input", "tied")
    assert higher("SimLex-999", "output", "tied")
    assert higher("MEN", "tied", "output")
    assert all(alike(name, "output", "tied") for name in ("mean", "Verb-143", "MTurk-771"))
    pairs = {
        pair: [each["pair_correlation"]["spearman"][pair] for each in found]
        for pair in ("output, tied", "input, output", "input, tied")
    }
    best, second, third = pairs.values()
    assert min(best) > max(second)
    assert min(second) > max(third)
    measured = results("word2vec", BENCHMARKS)["results"]
    ours, theirs = measured["mean_spearman"].values()
    lowest, highest = min(seeds("MEN", "input")), max(seeds("MEN", "tied"))
    return [
        f"On MEN the lowest seed of the input embedding has {lowest:.3f} and the highest of the tied embedding "
        f"{highest:.3f}.",
        f"here has {measured['words']:,} words: text8 is {TEXT8_WORDS / measured['words']:.1f} times as long.",
        f"output and tied ({statistics.mean(best):.2f}) instead of input and output ({statistics.mean(second):.2f})",
        f"is higher ({ours['input']:.2f} against {theirs['input']:.2f}), that of the output embedding is lower "
        f"({ours['output']:.2f} against {theirs['output']:.2f}), and training is slower",
    ]


def joint_claims():
    zh, m30k = "zh_en", "multi30k"
    joint, together, tied = "NNJM, SrcWin 3", "NNJM-Global, SrcWin 3", "NNJM-Global, tied"
    tyings = {grid: [gain(grid, "NNJM, tied", joint), gain(grid, tied, together)] for grid in (zh, m30k)}
    assert {f"{each:.0f}" for each in tyings[zh]} == {"18"}
    frozen, split = (
        [-gain(grid, without, f"{with_vectors} + BS") for grid in (zh, m30k)]
        for without, with_vectors in ((together, "NNJM-Global"), ("NNJM-Global + FixSplit 2",) * 2)
    )
    seeds = [len(cell["runs"]) for cell in joint_cells(m30k).values()]
    assert seeds.count(1) > len(seeds) / 2
    layers = [-gain(grid, f"NNJM-Global + NL {n}", together) for grid in (zh, m30k) for n in (96, 192)]
    assert all(1 <= each <= 2 for each in layers)
    words = [gain(m30k, f"NNJM-Global + SW-{n}", together) for n in (10, 25)]
    sections = [
        gain(g, f"NNJM-Global + FixSplit 2 + NL {n}", "NNJM-Global + FixSplit 2") for g in (zh, m30k) for n in (96, 192)
    ]
    assert max(map(abs, sections)) < 0.35
    for grid in (zh, m30k):  # nothing of the paper gains as much for the NNJM as tying
        cells = [name for name in joint_cells(grid) if name.startswith("NNJM") and not name.endswith("tied")]
        assert max(gain(grid, name, joint) for name in cells) < min(tyings[grid])
        best = max(gain(grid, name, joint) for name in cells if "Global" in name and "BS" not in name)
        assert (
            min(gain(grid, f"NNJM, {name}", joint) for name in ("2 hidden layers", "rectify", "leaky rectify")) > best
        )
        assert gain(grid, "NNJM-Global + FixSplit 2", "NNJM-Global + FixSplit 4") > 0
        assert gain(grid, "NNJM-Global + AdaSplit 2", "NNJM-Global + FixSplit 2") > 0
        assert gain(grid, "NNJM-Global + FixSplit 2", together) < 0
    return [
        f"by 18% on Chinese-English and by {min(tyings[m30k]):.0f}% to {max(tyings[m30k]):.0f}% on Multi30k, more than "
        "any of the paper's changes to the NNJM does.",
        f"It lowers that of the NNLM by {gain(zh, 'NNLM, tied', 'NNLM'):.0f}% on Chinese-English, within the seeds, "
        f"and by {gain(m30k, 'NNLM, tied', 'NNLM'):.0f}% on Multi30k.",
        f"more here ({gain(zh, 'NNLM-Global', 'NNLM'):.0f}% and {gain(m30k, 'NNLM-Global', 'NNLM'):.0f}%) than in",
        f"the NNJM with SrcWin 3 by {gain(zh, together, joint):.1f}% on Chinese-English. On Multi30k the seeds",
        f"With SrcWin 7 it helps by {gain(m30k, 'NNJM-Global, SrcWin 7', 'NNJM, SrcWin 7'):.1f}% on Multi30k and",
        f"Here it helps on Multi30k only, by {min(words):.1f}% to {max(words):.1f}%.",
        "perplexity is higher by {:.0f}% and {:.0f}% without sections,".format(*frozen),
        "and by {:.0f}% and {:.0f}% with two fixed sections.".format(*split),
        *converged_claims(joint, together),
    ]


def converged_claims(joint, together):
    zh, m30k, same_words = texts = ("zh_en_converged", "multi30k_converged", "zh_en_2000_converged")
    cells = joint_cells(zh)
    assert joint_cells(m30k).keys() == cells.keys()
    untied = {name: name.removesuffix(", tied") for name in cells if name.endswith(", tied")}
    untied |= {"NNJM, tied": joint, "NNJM-Global, tied": together}
    wide = [(f"{model}, SrcWin {m}", f"{model}, SrcWin 3") for model in ("NNJM", "NNJM-Global") for m in (5, 7)]
    alike = [joint, together, *(n for n in cells if n.startswith("NNJM-Global +") and not n.endswith("tied"))]
    losses, of_seeds, windows, apart, narrow, unlike, best_epochs = {}, {}, {}, {}, {}, {}, []
    for grid in (zh, m30k):
        tests = {name: [run["test"] for run in cell["runs"].values()] for name, cell in joint_cells(grid).items()}
        for names in (untied, untied.values()):
            runs = (run["valid_by_epoch"] for name in names for run in joint_cells(grid)[name]["runs"].values())
            best_epochs.append(statistics.median(each.index(min(each)) + 1 for each in runs))
        assert all(len(values) == 3 for values in tests.values())
        of_seeds[grid] = 100 * max(max(values) / min(values) - 1 for values in tests.values())
        assert worse(grid, "NNLM", joint)
        assert worse(grid, "NNLM", "NNLM-Global")
        windows[grid] = [-gain(grid, *pair) for pair in wide]
        losses[grid] = [-gain(grid, *pair) for pair in untied.items()]
        assert min(losses[grid]) > 0
        apart[grid] = [pair[0] for pair in untied.items() if worse(grid, *pair)]
        means = [statistics.mean(tests[name]) for name in alike]
        narrow[grid] = 100 * (max(means) / min(means) - 1)
        unlike[grid] = [pair for pair in permutations(alike, 2) if worse(grid, *pair)]
    assert [worse(zh, *pair) for pair in wide] == [True, True, False, True]
    assert all(worse(m30k, *pair) for pair in wide)
    assert untied.keys() - set(apart[zh]) == {"NNJM, SrcWin 7, tied"}
    assert untied.keys() == set(apart[m30k])
    assert not unlike[zh]

    def ahead(grid, tied, other):
        """After each epoch, whether a tied model has the better mean validation perplexity."""
        runs = ([run["valid_by_epoch"] for run in joint_cells(grid)[name]["runs"].values()] for name in (tied, other))
        means = ([statistics.mean(epoch) for epoch in zip(*each, strict=False)] for each in runs)
        return [one < two for one, two in zip(*means, strict=False)]

    nnjm_ahead = {grid: ahead(grid, "NNJM, tied", joint).index(False) for grid in texts}
    assert nnjm_ahead[zh] == nnjm_ahead[same_words]
    nnlm_ahead = {grid: ahead(grid, "NNLM, tied", "NNLM") for grid in texts}
    assert not any(nnlm_ahead[same_words] + nnlm_ahead[m30k])
    sizes = [cells[name]["runs"]["1"]["parameters"] / 1e6 for name in ("NNJM, tied", joint, "NNLM, tied", "NNLM")]
    by_rate = {}
    for grid in ("zh_en", same_words):
        runs, rate = joint_cells(grid)[joint]["runs"].values(), results(f"nnjm_{grid}")["optimisation"]["learning_rate"]
        by_rate[rate] = statistics.mean(run["valid_by_epoch"][4] for run in runs)
    orders = [gain(zh, f"NNJM-Global + {name} 2", together) for name in ("FixSplit", "AdaSplit")]
    assert orders[0] > gain(zh, "NNJM-Global + FixSplit 4", together) > 0 > orders[1]
    sections = [abs(gain(m30k, f"NNJM-Global + {name} 2", together)) for name in ("FixSplit", "AdaSplit")]
    assert {f"{each:.1f}" for each in sections} <= {"0.0", "0.1"}
    four, better = "NNJM-Global + FixSplit 4", [joint, together, "NNJM-Global + FixSplit 2", "NNJM-Global + SW-10"]
    assert unlike[m30k] == [(four, each) for each in alike if each in better]
    ends = [end(losses[grid]) for grid in (zh, m30k) for end in (min, max)]
    return [
        f"the first {nnjm_ahead[zh]} epochs with 10,000 and with 2,000 Chinese-English words, and in the first "
        f"{nnjm_ahead[m30k]} on Multi30k. The tied NNLM is ahead in the first {nnlm_ahead[zh].index(False)} epochs "
        "with 10,000 Chinese-English words. With 2,000, and on Multi30k, it is not ahead after any epoch. These are "
        "means of the seeds;",
        f"has a validation perplexity of {by_rate[0.3]:.0f} at 0.3 and of {by_rate[1.0]:.0f} at 1.0.",
        "the median best epoch is {:.0f} for tied and {:.0f} for untied models on Chinese-English, and {:.0f} and "
        "{:.0f} on Multi30k.".format(*best_epochs),
        "the NNJM has {:.1f} million parameters instead of {:.1f}, and the NNLM {:.1f} instead of {:.1f}.".format(
            *sizes
        ),
        f"The {len(untied)} models of tables 3 and 4 and their tied copies were trained so with three seeds.",
        f"the seeds of one model differ by up to {of_seeds[zh]:.1f}% on Chinese-English and by up to "
        f"{of_seeds[m30k]:.1f}% on Multi30k.",
        f"The source window lowers the perplexity by {gain(zh, joint, 'NNLM'):.0f}% on Chinese-English and by "
        f"{gain(m30k, joint, 'NNLM'):.0f}% on Multi30k. The global context lowers that of the NNLM by "
        f"{gain(zh, 'NNLM-Global', 'NNLM'):.0f}% and {gain(m30k, 'NNLM-Global', 'NNLM'):.0f}%.",
        "SrcWin 5 by {:.1f}% and SrcWin 7 by {:.1f}% on Chinese-English, by {:.1f}% and {:.1f}% on Multi30k.".format(
            *windows[zh][:2], *windows[m30k][:2]
        ),
        f"With the global context, SrcWin 7 is worse by {windows[zh][3]:.1f}% and {windows[m30k][3]:.1f}%, and SrcWin "
        f"5 on Multi30k by {windows[m30k][2]:.1f}%. (On Chinese-English SrcWin 5 is worse by {windows[zh][2]:.1f}%, "
        "within the seeds.)",
        f"{len(apart[zh])} of the {len(untied)} tied models on Chinese-English, and all {len(untied)} on Multi30k, are "
        "worse than their untied models.",
        f"the means of all {len(untied)} tied models are worse: by {ends[0]:.1f}% to {ends[1]:.1f}% on Chinese-English "
        f"({len(apart[zh])} of {len(untied)} beyond the seeds), by {ends[2]:.1f}% to {ends[3]:.1f}% on Multi30k "
        f"({len(apart[m30k])} of {len(untied)}).",
        f"all with SrcWin 3, differ by {narrow[zh]:.0f}% on Chinese-English, within the seeds, and by "
        f"{narrow[m30k]:.0f}% on Multi30k.",
        "With 2,000 Chinese-English words, also until convergence, the tied NNLM is "
        f"{-gain(same_words, 'NNLM, tied', 'NNLM'):.0f}% worse, and the tied NNJM "
        f"{-gain(same_words, 'NNJM, tied', joint):.0f}%, within the seeds.",
    ]


def augmentation_claims():
    twice = results("superseded/vd_lstm_small_tied_1")
    first, second = (twice["history"][epoch]["val_perplexity"] for epoch in (29, -1))
    names = ["vd_lstm_small", "vd_lstm_small_augmented", "vd_lstm_small_tied", "vd_lstm_small_tied_augmented"]
    published = [load_recipe(name).published.test_perplexity for name in names]
    seeds = [read_seeds(ZOO / "results", name) for name in names]
    assert [len(each) for each in seeds] == [3, 3, 2, 3]
    tested, validated = (
        [statistics.mean(seed[f"{split}_perplexity"] for seed in each) for each in seeds]
        for split in ("test", "validation")
    )
    promised, gained = ([plain - each for each in others] for plain, *others in (published, tested))
    assert promised[0] == pytest.approx(2 * promised[1])
    assert max(promised) == promised[-1]
    assert all(gain < published_gain for gain, published_gain in zip(gained, promised, strict=True))
    assert all(each[1] <= each[3] for each in (tested, validated))
    older = results("superseded/vd_lstm_small_augmented_1")
    by_beta, by_tau = (results("subspace")[key]["distance"] for key in ("by_beta", "by_tau"))
    assert all(curve == sorted(curve, reverse=True) for curve in (by_beta, by_tau))
    _, at_two, _, at_ten, _ = by_tau
    screened = {
        path.name.removesuffix("_screening_s1.json"): results(f"augmented_loss/{path.stem}")
        for path in (ZOO / "results" / "augmented_loss").glob("*_screening_s1.json")
    }
    assert all(len(each["history"]) == 10 for each in screened.values())
    valid = {name: each["validation_perplexity"] for name, each in screened.items()}
    pairs = [(start, tying) for start in ("uniform", "glorot") for tying in ("tied", "untied")]
    lower = [valid["_".join(pair)] - valid[f"{'_'.join(pair)}_tau_20"] for pair in pairs]
    glorot = [valid[f"glorot_tied{ending}"] for ending in ("_tau_20", "_tau_10", "_tau_5", "_tau_2", "")]
    through = (
        valid["glorot_tied_tau_20_constant"] - valid["glorot_tied_tau_20"],
        valid["glorot_untied_tau_20"] - valid["glorot_untied_tau_20_gradient"],
    )
    gammas = [valid[f"uniform_tied_tau_20{ending}"] for ending in ("_gamma_0_5", "", "_gamma_0_8")]
    best = [min((name for name in valid if f"_{tying}" in name), key=valid.get) for tying in ("tied", "untied")]
    once = [results(f"augmented_loss/{name}_first_s1") for name in best]
    of_once = [f"{each[f'{split}_perplexity']:.1f}" for each in once for split in ("validation", "test")]
    return [
        f"validation perplexity after ten epochs is {valid['glorot_tied_tau_20']:.1f} with the gradient and "
        f"{valid['glorot_tied_tau_20_constant']:.1f} without, with one seed each.",
        f"in all four pairs, by {min(lower):.1f} to {max(lower):.1f}. With RE, Glorot weights and a constant target it "
        f"raises it, from {valid['glorot_tied']:.1f} to {valid['glorot_tied_tau_20_constant']:.1f}.",
        "it is {:.1f} at temperature 20, {:.1f} at 10, {:.1f} at 5 and {:.1f} at 2, and {:.1f} without the loss".format(
            *glorot
        ),
        "With Glorot weights and temperature 20, a gradient through the target lowers it by {:.1f} with RE and by "
        "{:.1f} without;".format(*through),
        "gamma of 0.5, 0.65 and 0.8 gives {:.1f}, {:.1f} and {:.1f}.".format(*gammas),
        "the best without, `{}` and `{}`, are".format(*best),
        "{} on validation text and {} on test text with RE, {} and {} without.".format(*of_once),
        f"has {older['validation_perplexity']:.1f} and {older['test_perplexity']:.1f}; whether",
        f"{first:.1f} after the first thirty epochs and {second:.1f} after thirty more, and the test perplexity was "
        f"{twice['test_perplexity']:.1f}",
        "Here, on the test text, AL lowers the perplexity by {:.1f}, RE by {:.1f}, and both together by {:.1f}.".format(
            *gained
        ),
        f"it is {at_ten:.2f} at beta 1 and temperature 10, and {at_two:.2f} at temperature 2.",
    ]


def translation_claims():
    last = {name: results(f"multi30k_en_de_{name}")["history"][-1] for name in ("untied", "three_way", "decoder")}
    worst, lowest, tests = [], {"untied": [], "three_way": []}, {"untied": [], "three_way": []}
    for ending in ("", "_s2", "_s3"):
        ends = {name: results(f"multi30k_en_de_{name}{ending}")["history"][-1] for name in last}
        assert sorted(ends, key=lambda name: ends[name]["perplexity"]) == ["untied", "decoder", "three_way"]
        best, *others = sorted(ends, key=lambda name: ends[name]["val_perplexity"])
        assert best == "three_way"
        worst.append(others[-1])
        for name, values in lowest.items():
            values.append(results(f"multi30k_en_de_{name}{ending}")["validation_perplexity"])
            tests[name].append(results(f"multi30k_en_de_{name}{ending}")["test_perplexity"])
    assert worst == ["decoder", "decoder", "untied"]
    assert max(lowest["three_way"]) < min(lowest["untied"])
    assert max(tests["three_way"]) > min(tests["untied"])
    untied, three_way, _ = (
        f"{each['perplexity']:.2f}|{each['val_perplexity']:.2f}".split("|") for each in last.values()
    )
    bleus, validation = [], []
    for ending in ("", "_12_epochs"):
        runs = {name: read_seeds(ZOO / "results", f"multi30k_en_de_{name}{ending}") for name in last}
        bleus.append({name: [seed["test_bleu"] for seed in runs[name]] for name in last})
        validation.append({name: [seed["validation_bleu"] for seed in runs[name]] for name in last})
    chosen, other = validation
    gains = {name: statistics.mean(chosen[name]) - statistics.mean(other[name]) for name in last}
    assert [name for name, gain in gains.items() if gain < 0] == ["three_way"]
    ranges = [max(values) - min(values) for values in chosen.values()]
    assert 0 < statistics.mean(gains.values()) < max(ranges)  # the recipes have the better setting
    means = [{name: statistics.mean(values) for name, values in setting.items()} for setting in bleus]
    assert all(max(setting, key=setting.get) == "three_way" for setting in means)
    for scores in (bleus[0], chosen):
        assert not any(min(scores[one]) > max(scores[two]) for one, two in permutations(last, 2))
    assert commits(["multi30k_en_de_untied", "multi30k_en_fr_untied"]) <= COMMITS_THAT_STARTED_ALIKE
    return [
        "In the recorded runs of the untied models, the input and the output embedding of the decoder started from the "
        "same numbers in another order",
        f"the three-way tied one: {untied[0]} and {untied[1]} against {three_way[0]} and {three_way[1]} in the last",
        "the three-way tied ones have lower validation perplexities ({:.2f} to {:.2f}) than the untied ones ({:.2f} to "
        "{:.2f}).".format(*(end(lowest[name]) for name in ("three_way", "untied") for end in (min, max))),
    ]


CLAIMS = {
    "embeddings.md": embeddings_claims,
    "nnjm.md": joint_claims,
    "augmentation.md": augmentation_claims,
    "translation.md": translation_claims,
}


@pytest.mark.parametrize("page", CLAIMS)
def test_what_a_page_says_is_what_was_measured(page):
    check(page, CLAIMS[page]())
