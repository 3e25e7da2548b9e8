# SPDX-License-Identifier: MIT
"""The table on the terminal, as JSON and Markdown, and as a plot."""
import dataclasses
import json
import shutil
import subprocess


def number(value, unit):
    if unit == "s":
        return f"{value:.3f} s"
    if unit in ("ms", "kB", "MB"):
        return f"{value:.1f} {unit}"
    return f"{value:.0f}"


def cells_of(row):
    """Work, N, ours, theirs, ratio, goal, whether it is met."""
    theirs, ratio = "", ""
    if row.ratio is not None:
        at_least = ">" if row.is_given_up else ""
        theirs = f"{row.against} {at_least}{number(row.theirs, row.unit)}"
        ratio = "<0.01" if row.ratio < 0.01 else f"{'<' if row.is_given_up else ''}{row.ratio:.2f}"
    goal = "" if row.goal is None else f"{row.goal:.3g}{'' if row.ratio is not None else ' ' + row.unit}"
    return (row.work, f"{row.emails:,}", number(row.ours, row.unit), theirs, ratio, goal,
            {None: "", True: "met", False: "NOT met"}[row.is_met])


def line_of(row):
    work, emails, ours, theirs, ratio, goal, verdict = cells_of(row)
    return f"{work:<40}{emails:>9}{ours:>11}{theirs:>27}{ratio:>8}{goal:>9}  {verdict}".rstrip()


def sections(rows):
    """The rows of each section."""
    for name in dict.fromkeys(row.section for row in rows):
        yield name, [row for row in rows if row.section == name]


def summary(rows):
    judged = [row for row in rows if row.is_met is not None]
    return f"{sum(row.is_met for row in judged)} of {len(judged)} goals met"


def print_table(rows, requests, notes):
    print(f"\n{'work':<40}{'N':>9}{'inboxfs':>11}{'against':>27}{'ratio':>8}{'goal':>9}")
    for section, its_rows in sections(rows):
        print(f"--- {section}")
        for row in its_rows:
            print(line_of(row))
    for emails, commands in requests.items():
        print(f"--- requests of the kernel, N = {emails:,}")
        for command, operations in commands.items():
            print(f"{command:<24}{sum(operations.values()):>8}  "
                  + ", ".join(f"{name} {count}" for name, count in operations.items()))
    print("\n" + summary(rows))
    for note in notes:
        print(f"note: {note}")


def write_markdown(path, rows, requests, notes):
    """For docs/PERFORMANCE.md."""
    lines = []
    for section, its_rows in sections(rows):
        lines += [f"### {section.capitalize()}", "", "| work | N | inboxfs | against | ratio | goal | |",
                  "|---|--:|--:|--:|--:|--:|---|"]
        lines += ["| " + " | ".join(cells_of(row)) + " |" for row in its_rows] + [""]
    for emails, commands in requests.items():
        lines += [f"### Requests of the kernel, N = {emails:,}", "", "| work | all | by operation |", "|---|--:|---|"]
        lines += [f"| {command} | {sum(operations.values()):,} | "
                  + ", ".join(f"{name} {count:,}" for name, count in operations.items()) + " |"
                  for command, operations in commands.items()] + [""]
    lines += [summary(rows) + "; " + "; ".join(notes) + "."]
    path.write_text("\n".join(lines) + "\n")


def write_json(path, rows, requests, notes):
    path.write_text(json.dumps({
        "rows": [{**dataclasses.asdict(row), "ratio": row.ratio, "is_met": row.is_met} for row in rows],
        "requests": requests, "notes": notes}, indent=2) + "\n")


PLOT = """set terminal svg size 1100,{height} font 'sans-serif,11' background '#ffffff'
set output '{output}'
set title 'inboxfs: ratio to what it is compared with, and the goal (left is better)'
set logscale x
set xlabel 'times the other side of the row'
set yrange [{top}:-1]
set grid x
set key top right
set lmargin 48
plot '{data}' using 2:0:ytic(1) with points pointtype 7 pointsize 0.8 linecolor rgb '#1f6fb2' title 'measured', \\
     '' using 3:0 with points pointtype 2 pointsize 1 linecolor rgb '#c03030' title 'goal (at most)'
"""


def write_plot(folder, rows):
    """False: there is no gnuplot."""
    if shutil.which("gnuplot") is None:
        return False
    rows = [row for row in rows if row.ratio is not None and row.section != "peers"]
    if not rows:
        return True
    data = folder / "bench.dat"
    data.write_text("".join(f'"{row.work}, N = {row.emails:,}" {row.ratio:.4f} {row.goal or "NaN"}\n' for row in rows))
    script = folder / "bench.gnuplot"
    script.write_text(PLOT.format(height=100 + 18 * len(rows), output=folder / "bench.svg", top=len(rows), data=data))
    subprocess.run(["gnuplot", script], check=True)
    return True
