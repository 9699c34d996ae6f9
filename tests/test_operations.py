"""The sample files for operating the daemon, compared with the code and read by their tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from crawler.config import from_dict
from storage.location import FileLocation, ServerLocation

OPERATIONS = Path(__file__).parents[1] / "docs" / "operations"
RUNS = ("run", "/etc/courtly/crawl.toml")  # what the image does
EXPOSURE_MAX = 2.0


def compose_of(name: str) -> Any:
    return yaml.safe_load((OPERATIONS / name).read_text(encoding="utf-8"))


def test_the_image_runs_the_daemon_as_an_ordinary_user() -> None:
    lines = (OPERATIONS / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert "USER 10001:10001" in lines
    assert 'ENTRYPOINT ["courtly"]' in lines
    assert f"CMD {json.dumps(RUNS)}" in lines
    copied = {line.split()[1] for line in lines if line.startswith("COPY ") and "--" not in line}
    assert {"crawler", "policies", "storage", "pyproject.toml"} <= copied


def test_containers_have_no_privileges() -> None:
    for name in ["compose.yaml", "compose.postgres.yaml"]:
        services = [
            one for one in compose_of(name)["services"].values() if one["image"] == "courtly"
        ]
        assert services, name
        for one in services:
            assert one["read_only"] is True, name
            assert one["cap_drop"] == ["ALL"], name
            assert one["security_opt"] == ["no-new-privileges:true"], name
            assert one["stop_grace_period"] == "1m", name


def test_a_compose_file_starts_a_crawl_with_its_monitoring() -> None:
    compose = compose_of("compose.yaml")
    config = from_dict(tomllib.loads(compose["configs"]["crawl"]["content"]))
    assert isinstance(config.storage.location, FileLocation)
    services = compose["services"]
    (volume,) = services["courtly"]["volumes"]
    assert str(config.storage.location.path).startswith(volume.partition(":")[2] + "/")
    assert services["courtly"]["configs"][0]["target"] == RUNS[1]
    scraped = compose_of("prometheus.yml")["scrape_configs"][0]
    host, _, port = scraped["static_configs"][0]["targets"][0].partition(":")
    assert host in services
    assert host in config.daemon.hosts  # Prometheus sends it as Host
    assert int(port) == config.daemon.listens_on[1]
    for one in services.values():
        for mount in one["volumes"]:
            source = mount.partition(":")[0]
            assert (OPERATIONS / source).is_file() or source in compose["volumes"]
    source = compose_of("grafana/datasources.yaml")["datasources"][0]
    assert re.fullmatch(r"http://(\w+):9090", source["url"])[1] in services  # type: ignore[index]


def test_a_compose_file_starts_workers_on_a_database() -> None:
    text = (OPERATIONS / "compose.postgres.yaml").read_text(encoding="utf-8")
    compose = yaml.safe_load(text)
    services = compose["services"]
    config = from_dict(tomllib.loads(compose["configs"]["crawl"]["content"]))
    location = config.storage.location
    assert isinstance(location, ServerLocation)
    assert location.hosts[0][0] in services
    database = services[location.hosts[0][0]]
    assert "healthcheck" in database
    assert database["environment"]["POSTGRES_DB"] == location.database
    assert database["environment"]["POSTGRES_USER"] == location.user

    workers = [one for one in services.values() if one["image"] == "courtly"]
    assert len(workers) == 2
    for worker in workers:
        assert worker["depends_on"] == {location.hosts[0][0]: {"condition": "service_healthy"}}
        (mounted,) = worker["configs"]
        assert mounted["source"] in compose["configs"]
        assert mounted["target"] == RUNS[1]
    for service in services.values():
        for name in service["secrets"]:
            assert name in compose["secrets"]
            path = f"/run/secrets/{name}"
            assert path in (
                database["environment"]["POSTGRES_PASSWORD_FILE"],
                config.storage.password.partition(":")[2],
            )
    port = config.daemon.listens_on[1]
    assert [one["ports"] for one in workers if "ports" in one] == [[f"127.0.0.1:{port}:{port}"]]
    named = set(re.findall(r"CRAWL_[A-Z_]+", text.partition("name: courtly")[0]))
    used = set(re.findall(r"CRAWL_[A-Z_]+", text.partition("name: courtly")[2]))
    assert used == named


def test_the_sample_alerts_can_be_read() -> None:
    (group,) = yaml.safe_load((OPERATIONS / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        assert {"alert", "expr", "labels", "annotations"} <= rule.keys() <= {*rule, "for"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def has(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@has("promtool")
def test_the_sample_alerts_fire_when_they_should() -> None:
    output_of("promtool", "test", "rules", str(OPERATIONS / "alerts_test.yml"))


def test_every_sample_alert_has_a_test() -> None:
    rules = (OPERATIONS / "alerts.yml").read_text("utf-8")
    tests = compose_of("alerts_test.yml")["tests"]
    fired = {
        one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]
    }
    assert fired == set(re.findall(r"alert: (\w+)", rules))


@has("promtool")
def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    dashboard = json.loads((OPERATIONS / "grafana" / "dashboard.json").read_text("utf-8"))
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in dashboard["panels"]]
    assert len(set(places)) == len(places)
    queries = [target["expr"] for one in dashboard["panels"] for target in one.get("targets", ())]
    queries += [one["expr"] for one in dashboard["annotations"]["list"]]
    assert len(queries) > 20
    rules = [
        {"record": f"query:{at}", "expr": query.replace("$__rate_interval", "1m")}
        for at, query in enumerate(queries)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    output_of("promtool", "check", "rules", "--lint-fatal", str(path))


def test_the_dashboard_and_the_alerts_show_health_and_its_worst_causes() -> None:
    for file in ("alerts.yml", "grafana/dashboard.json"):
        text = (OPERATIONS / file).read_text("utf-8")
        for name in ("health", "given_up_hosts_total", "early_contacts_total"):
            assert f"courtly_{name}" in text, file


@has("systemd-analyze")
def test_the_unit_is_confined() -> None:
    unit = str(OPERATIONS / "courtly.service")
    shown = output_of("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"exposure level for courtly.service: ([\d.]+)", shown)
    assert found is not None, shown
    assert float(found[1]) < EXPOSURE_MAX
