#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses a skipped test whose reason does not hold on this machine.

A test skips with one of the reasons below in its message; with a word given by --have, its reason holds no more.

usage: check_skips.py JUNIT_XML [--have mnist] ...
       check_skips.py --self-test
"""
import argparse
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

# word of --have: what a message that skips for its absence contains (compared without case)
REASONS = {"mnist": "mnist", "photos": "imagenet-sample", "cifar10": "cifar10", "cases": "cases", "rights": "without more rights",
           "processors": "two processors", "unsanitized": "under a sanitizer", "avx512": "avx-512", "bf16": "bf16",
           "amx": "amx tiles", "cuda": "cuda", "cudnn": "cudnn", "pkg-config": "no pkg-config",
           "dpkg-dev": "no dpkg-dev"}


def faults_of(path, have):
    root = ElementTree.parse(path).getroot()
    faults, ran = [], 0
    for case in root.iter("testcase"):
        if case.get("status") not in ("notrun", "disabled") and case.find("skipped") is None:
            ran += 1
            continue
        output = (case.findtext("system-out") or "").lower()
        holding = [word for word, text in REASONS.items() if text in output]
        if not holding:
            faults.append(f"{case.get('name')}: skipped without a known reason")
        elif have.intersection(holding):
            faults.append(f"{case.get('name')}: skipped for want of {', '.join(have.intersection(holding))}, which is here")
    return faults if ran else faults + [f"{path}: no test ran"]


def self_test():
    def report(status, text, have):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f'<testsuite><testcase name="a" status="run"/><testcase name="b" status="{status}">'
                       f"<system-out>{text}</system-out></testcase></testsuite>")
            file.flush()
            return bool(faults_of(file.name, have))
    wanted = [("run", "", set(), False), ("notrun", "no MNIST in build/data", set(), False),
              ("notrun", "no MNIST in build/data", {"mnist"}, True), ("notrun", "because", set(), True),
              ("disabled", "", set(), True)]
    return [f"{status} {text!r} with {have}: wanted {fault}" for status, text, have, fault in wanted
            if report(status, text, have) != fault]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("junit", nargs="?")
    parser.add_argument("--have", action="append", default=[], choices=sorted(REASONS))
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    faults = self_test() if args.self_test else faults_of(args.junit, set(args.have))
    print("\n".join(faults) if faults else "skips: each has a reason that holds")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
