#!/bin/sh
# Models the cycles of a program at commit RPROF_BASE and at HEAD, and compares them. Run in the repository.
#
#   RPROF_BASE       commit to compare with
#   RPROF_PROGRAM    the command line, run in the folder of the checkout
#   RPROF_BUILD      shell command that builds it [true]
#   RPROF_THRESHOLD  more cycles than this part of the base's are a regression [1%]
#   RPROF_FOLDER     folder for the checkout, base.json, head.json and comment.md [a temporary one]
#
# Exit status: 0 no regression, 1 a regression, anything else a failure.
set -eu
base=${RPROF_BASE:-}
if [ -z "$base" ]; then
    echo "rprof gate: no base: give the commit to compare with (input base, or RPROF_BASE)" >&2
    exit 125
fi
program=${RPROF_PROGRAM:-}
if [ -z "$program" ]; then
    echo "rprof gate: no program: give its command line (input program, or RPROF_PROGRAM)" >&2
    exit 125
fi
folder=${RPROF_FOLDER:-$(mktemp -d)}
mkdir -p "$folder"
head=$(git rev-parse HEAD)
if ! git cat-file -e "$base^{commit}" 2> /dev/null; then
    # A checkout of one commit only.
    git fetch --quiet --depth 1 origin "$base" || {
        echo "rprof gate: commit $base is not here and cannot be fetched; check out with fetch-depth: 0" >&2
        exit 125
    }
fi

# Both builds are made and run in one folder, so that their paths are equal: the kernel puts them above the stack.
git worktree prune
git worktree add --quiet --detach --force "$folder/tree" "$base"
trap 'git worktree remove --force "$folder/tree"' EXIT
for side in base head; do
    if [ "$side" = head ]; then
        git -C "$folder/tree" checkout --quiet --detach "$head"
        git -C "$folder/tree" clean -dfxq
    fi
    (
        cd "$folder/tree"
        sh -c "${RPROF_BUILD:-true}" >&2
        sh -c "exec rprof gate --quiet -o '$folder/$side.json' -- $program" > "$folder/$side.txt"
    )
done

status=0
rprof gate --base "$folder/base.json" --head "$folder/head.json" --threshold "${RPROF_THRESHOLD:-1%}" --format markdown \
    > "$folder/comment.md" || status=$?
case $status in
    0 | 1) ;;
    *) exit "$status" ;;
esac
cat "$folder/comment.md"
cat "$folder/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
verdict=$(rprof gate --base "$folder/base.json" --head "$folder/head.json" --threshold "${RPROF_THRESHOLD:-1%}" --format json |
    sed -n 's/^  "verdict": "\(.*\)",$/\1/p') || true
{
    echo "verdict=$verdict"
    echo "comment=$folder/comment.md"
} >> "${GITHUB_OUTPUT:-/dev/null}"
exit "$status"
