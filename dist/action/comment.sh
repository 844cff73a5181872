#!/bin/sh
# Writes RPROF_COMMENT (a file) as a comment on pull request RPROF_PULL_REQUEST of GITHUB_REPOSITORY, in place of the one that an
# earlier run left. Without the right to comment, as for pull requests from forks, it prints the comment instead; that is no failure.
set -eu
marker='<!-- rprof gate -->'
body=$(mktemp)
trap 'rm -f "$body"' EXIT
{ echo "$marker"; cat "$RPROF_COMMENT"; } > "$body"

instead() {
    echo "rprof gate: $1; the comment would be:" >&2
    cat "$RPROF_COMMENT"
    exit 0
}

[ -n "${RPROF_PULL_REQUEST:-}" ] || instead "this is no run of a pull request"
command -v gh > /dev/null || instead "gh, the program of GitHub that comments, is not installed"
comments="repos/$GITHUB_REPOSITORY/issues/$RPROF_PULL_REQUEST/comments"
earlier=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id" 2> /dev/null | head -n 1) || true
if [ -n "$earlier" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$earlier" -F "body=@$body" > /dev/null ||
        instead "not permitted to change comment $earlier"
else
    gh api --method POST "$comments" -F "body=@$body" > /dev/null ||
        instead "not permitted to comment on pull request $RPROF_PULL_REQUEST"
fi
