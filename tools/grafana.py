"""Writes monitoring/grafana-*.json: two dashboards for Grafana, made of the table below. A test compares them."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "monitoring"
SOURCE = {"type": "prometheus", "uid": "${source}"}
RATE = "[$__rate_interval]"
ONE = 'instance=~"$instance"'
# title, unit, {legend: expression}; a row of panels each
DAEMONS: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "What goes in and out": [
        ("Messages a second", "short", {"{{type}}": f"sum by (type) (rate(queend_items_total{{{ONE}}}{RATE}))"}),
        ("Requests a second", "reqps", {"{{type}}": f"sum by (type) (rate(queend_requests_total{{{ONE}}}{RATE}))"}),
        ("Answers with an error", "reqps", {"{{type}}": f"sum by (type) (rate(queend_errors_total{{{ONE}}}{RATE}))",
                                            "refused": f"sum(rate(queend_worker_refused_total{{{ONE}}}{RATE}))"})],
    "How long it takes": [
        ("Requests, 99 of 100", "s", {"{{type}}": "histogram_quantile(0.99, sum by (le, type) (rate("
                                      f"queend_request_latency_seconds_bucket{{{ONE}}}{RATE})))"}),
        ("Statements", "s", {word: f"histogram_quantile({share}, sum by (le) (rate("
                                   f"queend_statement_latency_seconds_bucket{{{ONE}}}{RATE})))"
                             for word, share in (("50 of 100", 0.5), ("99 of 100", 0.99))}),
        ("Age of messages when delivered", "s", {word: f"histogram_quantile({share}, sum by (le) (rate("
                                                 f"queend_delivery_age_seconds_bucket{{{ONE}}}{RATE})))"
                                                 for word, share in (("50 of 100", 0.5), ("99 of 100", 0.99))})],
    "What holds on": [
        ("Connections and long polls", "short", {
            "connections": f"sum(queend_clients_connections{{{ONE}}})",
            "parked": f"sum(queend_worker_parked{{{ONE}}})", "to PostgreSQL": f"sum(queend_worker_slots{{{ONE}}})"}),
        ("Database", "short", {"doubts": f"max(queend_database_doubts{{{ONE}}})",
                               "errors a second": f"sum(rate(queend_worker_db_errors_total{{{ONE}}}{RATE}))",
                               "commits may be lost": f"max(queend_commits_may_be_lost{{{ONE}}})"}),
        ("Failover buffer", "short", {"messages": f"sum(queend_buffer_pending_messages{{{ONE}}})",
                                      "quarantined": f"sum(queend_buffer_quarantined{{{ONE}}})"})],
    "The doctor": [
        ("Findings", "short", {"{{level}} {{check}}": f"max by (check, level) (queend_doctor_finding{{{ONE}}}) > 0"}),
        ("Retention, messages a second", "short", {
            "{{reason}}": f"sum by (reason) (rate(queend_retention_removed_messages_total{{{ONE}}}{RATE}))"}),
        ("Messages pushed from SQL that wait", "short", {"waiting": f"max(queend_outbox_messages{{{ONE}}})",
                                                         "refused": f"max(queend_outbox_refused_messages{{{ONE}}})"})]}
QUEUE, GROUP = 'queue=~"$queue"', 'queue=~"$queue",group=~"$group"'
QUEUES: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "All of them": [
        ("Messages that wait", "short", {"waiting": "max(queend_backlog_messages)",
                                         "with consumers": "max(queend_backlog_processing_messages)"}),
        ("Dead letters", "short", {"all": "max(queend_dead_letters)"}),
        ("Not told of by name", "short", {"{{kind}}": "max by (kind) (queend_backlog_left_out)"})],
    "Queues": [
        ("Backlog", "short", {"{{queue}}": f"max by (queue) (queend_queue_backlog_messages{{{QUEUE}}})"}),
        ("Oldest message", "s", {"{{queue}}": f"max by (queue) (queend_queue_oldest_seconds{{{QUEUE}}})"}),
        ("Stored", "short", {"{{queue}}": f"max by (queue) (queend_queue_stored_messages{{{QUEUE}}})"})],
    "Rates": [
        ("In, messages a second", "short", {
            "{{queue}}": f"sum by (queue) (rate(queend_queue_push_messages_total{{{QUEUE}}}{RATE}))"}),
        ("Out, messages a second", "short", {
            "{{queue}}": f"sum by (queue) (rate(queend_queue_pop_messages_total{{{QUEUE}}}{RATE}))"}),
        ("Acknowledged a second", "short", {
            "{{queue}}": f"sum by (queue) (rate(queend_queue_acked_messages_total{{{QUEUE}}}{RATE}))",
            "{{queue}} refused": f"sum by (queue) (rate(queend_queue_ack_failed_messages_total{{{QUEUE}}}{RATE}))"})],
    "Groups": [
        ("Lag", "short", {"{{queue}} {{group}}": f"max by (queue, group) (queend_group_lag_messages{{{GROUP}}})"}),
        ("Oldest message", "s", {
            "{{queue}} {{group}}": f"max by (queue, group) (queend_group_oldest_seconds{{{GROUP}}})"}),
        ("Standing partitions", "short", {
            "{{queue}} {{group}}": f"max by (queue, group) (queend_standing_partitions{{{GROUP}}})"})],
    "What is wrong with some": [
        ("Dead letters", "short", {"{{queue}}": f"max by (queue) (queend_queue_dead_letters{{{QUEUE}}}) > 0"}),
        ("Paused", "short", {"{{queue}}": f"max by (queue) (queend_queue_paused{{{QUEUE}}}) > 0",
                             "{{queue}} {{group}}": f"max by (queue, group) (queend_group_paused{{{GROUP}}}) > 0"}),
        ("On lease", "short", {"{{queue}} {{group}}":
                               f"max by (queue, group) (queend_group_processing_messages{{{GROUP}}})"})]}


def panel(number: int, place: tuple[int, int], title: str, unit: str, lines: dict[str, str]) -> dict[str, Any]:
    x, y = place
    return {"id": number, "type": "timeseries", "title": title, "datasource": SOURCE,
            "gridPos": {"h": 8, "w": 8, "x": x, "y": y},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10}}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
            "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
                        for i, (legend, expression) in enumerate(lines.items())]}


def variable(name: str, query: str) -> dict[str, Any]:
    return {"name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name},
            "definition": query, "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*", "sort": 1,
            "current": {"text": "All", "value": "$__all"}}


def dashboard(uid: str, title: str, rows: dict[str, list[tuple[str, str, dict[str, str]]]],
              variables: list[dict[str, Any]]) -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    y = 0
    for heading, found in rows.items():
        panels.append({"id": len(panels) + 1, "type": "row", "title": heading, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        panels += [panel(len(panels) + 1 + i, (8 * i, y + 1), *one) for i, one in enumerate(found)]
        y += 9
    return {"uid": uid, "title": title, "tags": ["queend"], "schemaVersion": 39, "version": 1, "editable": True,
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
            "annotations": {"list": []},
            "templating": {"list": [{"name": "source", "label": "Prometheus", "type": "datasource",
                                     "query": "prometheus", "current": {}, "refresh": 1}, *variables]},
            "panels": panels}


def dashboards() -> dict[str, str]:
    """By the name of the file."""
    made = {"grafana-daemons.json": dashboard("queend-daemons", "queend: daemons", DAEMONS, [
                variable("instance", "label_values(queend_requests_total, instance)")]),
            "grafana-queues.json": dashboard("queend-queues", "queend: queues and groups", QUEUES, [
                variable("queue", "label_values(queend_queue_backlog_messages, queue)"),
                variable("group", 'label_values(queend_group_lag_messages{queue=~"$queue"}, group)')])}
    return {name: json.dumps(one, indent=1) + "\n" for name, one in made.items()}


if __name__ == "__main__":
    for name, text in dashboards().items():
        (FOLDER / name).write_text(text)
