"""ALERTS as Prometheus would have written them, had it evaluated its rules over what was filled in afterwards.

promtool fills in recording rules and leaves alerts out. So each alert's expression is asked of the Prometheus that
has loaded the rules, evaluation by evaluation, and what waits, fires and is kept follows Prometheus's own rules for
`for` and `keep_firing_for`. Nothing is made up: without an answer to its expression no alert is here.
Usage: alerts_fired.py URL FROM TO STEP (seconds), writes OpenMetrics to standard output.
"""

import collections
import json
import sys
import urllib.parse
import urllib.request

url, begin, end, step = sys.argv[1], *map(int, sys.argv[2:])


def ask(path, **what):
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(what)}") as answer:
        return json.load(answer)["data"]


def held(rule):
    """When the expression held, by the labels that the alert has then."""
    answers = ask("query_range", query=rule["query"], start=begin, end=end, step=step)
    for series in answers["result"]:
        labels = {k: v for k, v in series["metric"].items() if k != "__name__"}
        yield {**labels, **rule["labels"], "alertname": rule["name"]}, {int(float(t)) for t, _ in series["values"]}


def states(times, wait, keep):
    """Pending or firing at each evaluation, as in Prometheus: an alert that is kept fires on without its expression."""
    since = gone = None
    firing = False
    for now in range(begin, end + 1, step):
        if now in times:
            since, gone = now if since is None else since, None
            firing = firing or now - since >= wait
        else:
            gone = now if gone is None else gone
            if not firing or now - gone >= keep:
                since, firing = None, False
        if since is not None:
            yield now, "firing" if firing else "pending"


samples = collections.defaultdict(list)
for group in ask("rules", type="alert")["groups"]:
    for rule in group["rules"]:
        for labels, times in held(rule):
            for now, state in states(times, rule["duration"], rule.get("keepFiringFor", 0)):
                told = {**labels, "alertstate": state}
                samples[tuple(sorted(told.items()))].append(now)
print("# TYPE ALERTS gauge")
for labels, times in samples.items():
    named = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels)
    for now in times:
        print(f"ALERTS{{{named}}} 1 {now}")
print("# EOF")
