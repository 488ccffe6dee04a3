"""What looks like a secret and what does not; every secret here is put together at run time and opens nothing."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from memd.indexer.maintenance import doctor
from memd.models import Workspace
from memd.notes.secrets import MASKED, formats, looks_made, masked, masked_in, secrets_in
from tests.unit import secret_corpus as corpus
from tests.unit.secret_corpus import armour, made

HEX, UPPER = corpus.HEX, string.ascii_uppercase + string.digits


TOKENS = {
    "a private key": [
        f"{armour('OPENSSH PRIVATE KEY')}\n{made(64)}\n",
        f"{armour('PRIVATE KEY')}\n{made(64)}\n",
        f"{armour('RSA PRIVATE KEY')}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{made(32, HEX)}\n\n{made(64)}\n",
        f"{armour('PGP PRIVATE KEY BLOCK')}\n\n{made(64)}\n",
        f'"private_key": "{armour("PRIVATE KEY")}\\n{made(64)}\\n"',
        f"    {armour('EC PRIVATE KEY')}\n    {made(64)}\n",
    ],
    "an AWS key": ["AK" + "IA" + made(16, UPPER), f"key {'AS' + 'IA' + made(16, UPPER)}."],
    "a GitHub token": ["gh" + "p_" + made(36), "github" + "_pat_" + made(22) + "_" + made(59)],
    "a GitLab token": ["gl" + "pat-" + made(20)],
    "a Slack token": ["xo" + "xb-" + made(12, string.digits) + "-" + made(24), "xa" + "pp-1-" + made(30, UPPER)],
    "a Slack webhook": [
        "https://hooks." + "slack.com/services/T" + made(9, UPPER) + "/B" + made(9, UPPER) + "/" + made(24)
    ],
    "a Discord webhook": ["https://discord.com/api/" + "webhooks/" + made(18, string.digits) + "/" + made(68)],
    "a Discord token": [
        "bot: M" + made(25) + "." + made(6) + "." + made(38),
        "N" + made(23) + "." + made(6) + "." + made(27),
    ],
    "a Telegram token": [made(10, string.digits) + ":A" + "A" + made(33)],
    "an API key": [
        "s" + "k-" + made(48),
        "s" + "k-proj-" + made(20) + "_" + made(30) + "-" + made(20),
        "s" + "k-ant-api03-" + made(40) + "-" + made(40),
        "s" + "k-or-v1-" + made(64, HEX),
        "gs" + "k_" + made(52),
        "xa" + "i-" + made(80),
        "do" + "p_v1_" + made(64, HEX),
        "ke" + "y-" + made(32, HEX),
    ],
    "a Stripe key": ["s" + "k_live_" + made(24), "r" + "k_test_" + made(24)],
    "a Google API key": ["AI" + "za" + made(35), "GOC" + "SPX-" + made(28)],
    "a Hugging Face token": ["h" + "f_" + made(34)],
    "an npm token": ["np" + "m_" + made(36)],
    "a PyPI token": ["py" + "pi-" + "AgEIcHlwaS" + made(60)],
    "a Docker token": ["dckr" + "_pat_" + made(27)],
    "a SendGrid key": ["S" + "G." + made(22) + "." + made(43)],
    "a Vault token": ["hv" + "s." + made(24)],
    "an age key": ["AGE-" + "SECRET-KEY-1" + made(58, UPPER)],
    "a Tailscale key": ["ts" + "key-auth-" + made(16) + "-" + made(32)],
    "an Azure key": ["DefaultEndpointsProtocol=https;Account" + "Key=" + made(86) + "=="],
    "a JSON web token": ["ey" + "J" + made(20) + ".ey" + "J" + made(40) + "." + made(43)],
    "a password in a URL": [
        "postgres://app:" + "tr0ub4dor" + "@db.local/main",
        "redis://:" + made(16) + "@10.0.0.7:6379",
        "https://oauth2:" + made(24) + "@git.local/x.git",
    ],
    "a bearer token": ["curl -H 'X-Auth: Bearer " + made(32) + "'"],
    "a login": ["Authorization: Basic " + made(22) + "=="],
    "a password in a command": [
        "curl -s -u pierce:" + "Tr0ub4dor&3" + " https://nas.local/",
        "sshpass -p " + "Tr0ub4dor3x" + " ssh nas",
        "mysqldump --password " + made(14) + " main",
    ],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TOKENS.items() for text in texts])
def test_a_key_is_known_by_its_shape(kind: str, text: str) -> None:
    found = secrets_in(f"first line\n{text}\nlast line\n")
    assert [(secret.line, secret.kind) for secret in found] == [(2, kind)]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TOKENS.items() for text in texts])
def test_a_mask_covers_a_secret_to_its_end_and_keeps_the_lines(kind: str, text: str) -> None:
    whole = f"first line\n{text}\nlast line\n"
    safe = masked(whole)
    assert f"[masked: {kind}]" in safe and safe.startswith("first line\n") and safe.endswith("last line\n")
    assert safe.count("\n") == whole.count("\n")
    assert secrets_in(safe) == [] and masked(safe) == safe
    # What a generator gave may end anywhere; its last characters are as secret as its first.
    assert text.rstrip("'\" \\n/")[-5:] not in safe or kind.startswith("a password")


@pytest.mark.parametrize("name", corpus.SECRETS)
def test_a_secret_of_every_format_is_seen_and_masked(name: str) -> None:
    text = corpus.SECRETS[name]
    assert secrets_in(f"first line\n{text}\nlast line\n")
    safe = masked(f"first line\n{text}\nlast line\n")
    assert secrets_in(safe) == [] and safe.startswith("first line\n") and safe.endswith("last line\n")
    assert corpus.W not in safe and not [part for part in re.findall(r"[\w+-]{24,}", text)[-1:] if part in safe]


@pytest.mark.parametrize("name", corpus.SECRETS)
def test_a_secret_is_masked_wherever_in_an_answer_it_stands(name: str) -> None:
    secret = corpus.SECRETS[name]
    for before, after in (("", ""), ("machine", "login"), ("password:", "x" * 30), ("2026-02-16", "memory/a.md")):
        answer = {"hits": [{"path": before, "text": secret, "tags": [after]}], "total": 1}
        assert masked_in(answer) == {
            "hits": [{"path": masked(before), "text": masked(secret), "tags": [masked(after)]}], "total": 1
        }  # fmt: skip


@pytest.mark.parametrize("text", corpus.INNOCENT)
def test_what_ordinary_notes_are_full_of_is_no_secret(text: str) -> None:
    assert secrets_in(f"{text}\n") == []


def test_every_shape_is_tried_here() -> None:
    seen = {secret.kind for text in corpus.SECRETS.values() for secret in secrets_in(text)}
    assert {one["kind"] for one in formats()["shapes"]} <= TOKENS.keys() | seen
    assert len(corpus.INNOCENT) >= len(corpus.SECRETS)


HUNTER = "hunt" + "er2x9"
PHRASE = "Tr0ub" + "4dor&3"


@pytest.mark.parametrize(
    "line",
    [
        "password: {}",
        "Password is {}",
        "the password is: {}.",
        "**Password:** `{}`",
        "- Wi-Fi password for the guests: {}",
        "wifi password (upstairs): {}",
        "| router password | {} |",
        "DB_PASSWORD={}",
        "export MY_APP_TOKEN={}",
        'os.environ["API_KEY"] = "{}"',
        '{{"password": "{}", "user": "pierce"}}',
        'const accessToken = "{}";',
        "aws_secret_access_key = {}",
        "client_secret: '{}'",
        "passphrase := {}",
        "token => {}",
        "secret -> {}",
        "Passwort: {}",
        "El password es {}",
        "Mot de passe : {}",
        "пароль: {}",
        "密码：{}",
        "https://nas.local/?user=a&token={}",
        "pwd={}",
        "api key: {}",
        "api-key = {}",
    ],
)
@pytest.mark.parametrize("value", [HUNTER, PHRASE, made(12), made(40, HEX), "x" + made(10), "_" + made(12)])
def test_a_word_that_names_a_secret_gives_it_away(line: str, value: str) -> None:
    assert [secret.line for secret in secrets_in("\n" + line.format(value))] == [2]


@pytest.mark.parametrize(
    "line",
    [
        # Talk about secrets.
        "Pierce changed the password yesterday and put it into the vault.",
        "The token is long-lived and read-only.",
        "auth is token-based, the secret is well-known",
        "The password is case-sensitive.",
        "The secret of a good bread: patience",
        "password: required",
        "password: see KeePass",
        "password: in 1Password, under NAS",
        "the access key is left of the space bar",
        "tests pass: 1,234 of 1,234",
        "pass = 100.0%",
        "token budget: 4096",
        "token_count = 128000tokens",
        "password_hash: argon2id",
        "password: argon2id with 64MB",
        "tokens: cl100k_base",
        "token: cl100k_base",
        "secret: sha256-based",
        "token: gpt-4o-mini",
        "credentials: aws-prod-2",
        "token expires: 2026-02-15T10:00Z",
        "token: 2026-02-15T10:00Z",
        "compass: N52E013x",
        "keyboard: k380-multi",
        # Where a secret would stand.
        "password: ********",
        "password=xxxxxxxx",
        "token: xxxx-xxxx-1a2b",
        "password: <your-password-1>",
        "token: ${MY_TOKEN_1}",
        "token=$MY_TOKEN1",
        "password: {{ vault.db_password1 }}",
        "password: %PASSWORD1%",
        "api_key: your-api-key-123",
        "api_key = YOUR_API_KEY_HERE",
        "token: abc-example-123",
        "password: password1",
        "secret: changeme123",
        # Code and places.
        "password = config.password2",
        "password = get_password2(user)",
        "token = os.environ['TOKEN_2']",
        "secret: /run/secrets/db2",
        "token: ~/.config/token2",
        "private key: ~/.ssh/id_ed25519",
        "token: https://example.com/token2",
        "password file: secrets2.txt",
        "secret: notes2.md",
        # Addresses and shapes that are none.
        "http://localhost:8409/api@2x.png",
        "The API endpoint is http://192.0.2.18:8409.",
        "https://user:password@example.com",
        "amqp://guest:guest@localhost",
        "postgres://app:$DB_PASSWORD@db/main",
        "ssh://git@github.com:22/a/b",
        "curl -u $USER:$PASS https://nas.local",
        "memd topic search --token TOKEN",
        "sk-learn-contrib-py37-packages are old",
        "key-value-store-with-2-replicas-and-more-of-it",
        "the disk-usage-of-the-array-2024-report",
        "task-2026-0215-write-the-report-for-pierce",
        "Bearer tokens are sent in the header",
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "gh" + "p_" + "x" * 36,
        "AK" + "IA" + "X" * 16,
        "AK" + "IAIOSFODNN7" + "EXAMPLE",
        "the header `" + "-" * 5 + "BEGIN PRIVATE KEY" + "-" * 5 + "` opens it",
        "-" * 5 + "BEGIN PUBLIC KEY" + "-" * 5 + "\n" + "A1b2" * 16,
        "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAAI" + "Q3x7" * 10 + " pierce@fjord",
        "sha512-" + "Zm9v" * 20 + "==",
        "data:image/png;base64,iVBORw0KGgo" + "AAAA1" * 10,
    ],
)
def test_talk_about_secrets_and_what_stands_in_their_place_are_none(line: str) -> None:
    assert secrets_in(line) == []


def test_the_value_is_never_told() -> None:
    value = made(20)
    (found,) = secrets_in(f"password: {value}")
    assert value not in repr(found)


def test_a_line_is_told_once_and_lines_are_counted_as_editors_do() -> None:
    text = f"a\r\npassword: {HUNTER} token: {PHRASE}\r\n\x0b\x85\u2028b\ntoken: {made(20)}\n"
    assert [secret.line for secret in secrets_in(text)] == [2, 4]


@pytest.mark.parametrize(("value", "made_up"), [("correct-horse", False), ("Tr0ub4dor3", True), ("aaaaaaa1", False)])
def test_what_looks_made(value: str, made_up: bool) -> None:
    assert looks_made(value) is made_up


@pytest.mark.parametrize(
    "text",
    [
        "password for " + "a " * 50_000,
        armour("PRIVATE KEY") + "\n" * 100_000,
        armour("PRIVATE KEY") + "\n" + "a: b\n" * 20_000,
        "sk-" + "-" * 100_000,
        "curl " * 20_000,
        "a://" * 20_000 + ":" * 20_000,
        "eyJ" + "a" * 100_000,
        "token" * 20_000,
        "secret=" * 20_000,
        "machine" + " " * 50_000,
        "machine x login " * 10_000,
        "seed phrase: " + "able " * 20_000,
        "recovery codes: " + "_-" * 50_000,
        "mysql " * 20_000,
        "WIFI:" * 20_000,
        "0" * 100_000 + "-us",
        "1/" + "1" * 100_000,
        "password — " * 20_000,
        "密码是" * 20_000,
    ],
    ids=lambda text: text[:12].strip(),
)
def test_no_pattern_runs_away(text: str) -> None:
    """Each of these is what one of them has trouble with, if it has any: the test would not end."""
    assert len(secrets_in(text)) <= 1


# --- in files that are there already ----------------------------------------------------------------------------


def test_files_are_looked_through_until_the_time_is_up(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for nth in range(20):
        (tmp_path / "memory" / f"{nth}.md").write_text(f"# {nth}\n\npassword: {made(16)}\n")
    workspace = Workspace("agent", tmp_path)
    (finding,), places = doctor.find_secrets([workspace], 1_000_000)
    assert len(places) == 20 and {place["line"] for place in places} == {3}
    assert finding.state == "warn" and "20 lines in 20 files" in finding.detail
    (finding,), places = doctor.find_secrets([workspace], 1_000_000, seconds=-1)
    assert not places and "newest 0 of 20" in finding.detail and finding.state == "warn"


def test_a_workspace_without_secrets_is_well(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# Memory\n\nThe password is in the vault.\n")
    (finding,), places = doctor.find_secrets([Workspace("agent", tmp_path)], 1_000_000)
    assert (finding.state, finding.detail, places) == ("ok", "none seen in 1 file", [])


# --- masks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [HUNTER, PHRASE, made(12), made(40, HEX)])
@pytest.mark.parametrize("line", ["password: {}", '{{"token": "{}", "user": "pierce"}}', "| router password | {} |"])
def test_a_named_secret_is_masked_and_what_stands_beside_it_is_not(line: str, value: str) -> None:
    safe = masked(f"Before.\n{line.format(value)}\nBehind.")
    assert value not in safe and len(MASKED.findall(safe)) == 1
    assert safe.startswith("Before.\n") and safe.endswith("\nBehind.")
    assert ("pierce" in safe) == ("pierce" in line)


def test_a_password_in_an_address_leaves_the_address_readable() -> None:
    assert (
        masked("postgres://app:" + HUNTER + "@db.local/main")
        == "postgres://app:[masked: a password in a URL]@db.local/main"
    )


def test_a_part_of_a_private_key_is_masked_wherever_the_answer_cuts_it() -> None:
    lines = [made(64) for _ in range(20)]
    key = [armour("RSA PRIVATE KEY"), *lines, armour("RSA PRIVATE KEY").replace("BEGIN", "END")]
    for first, last in ((0, 22), (0, 9), (5, 12), (15, 22)):
        safe = masked("\n".join(key[first:last]))
        assert not [line for line in lines if line in safe], (first, last)
        assert safe.count("\n") == last - first - 1


def test_what_is_no_secret_is_shown_as_it_is() -> None:
    for file in (Path(__file__).parents[2] / "examples").rglob("*.md"):
        assert masked(file.read_text()) == file.read_text(), file
    path = "src/main/java/com/company/Product1/Thing2/AndAnother3/Service4Factory"
    assert masked(f"{path}\n") == f"{path}\n"


def test_many_beginnings_of_keys_take_no_longer_than_their_text() -> None:
    # Without the bound each of them would read on for thousands of characters.
    many = f"{armour('PRIVATE KEY')}\n{made(30)}\n" * 3_000
    assert len(MASKED.findall(masked(many))) == 3_000
