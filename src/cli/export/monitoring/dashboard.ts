/** One line of a panel: what is asked, and how it is named. */
interface Target {
  expr: string;
  legend: string;
}

/** A panel of the dashboard; `unit` as Grafana names units. */
interface Panel {
  title: string;
  kind: 'timeseries' | 'stat' | 'table';
  unit: string;
  /** Of 24. */
  width: number;
  targets: readonly Target[];
}

const BY_RESOURCE = '{{source}} {{resource}}';
const OF_SOURCE = '{source=~"$source"}';

/** Expressions name only metrics and labels that `/metrics` has. */
const PANELS: readonly Panel[] = [
  {
    title: 'Overdue resources',
    kind: 'stat',
    unit: 'none',
    width: 6,
    targets: [{ expr: `sum(content_sync_overdue${OF_SOURCE})`, legend: 'overdue' }],
  },
  {
    title: 'Records set aside',
    kind: 'stat',
    unit: 'none',
    width: 6,
    targets: [{ expr: `sum(content_sync_rejects${OF_SOURCE})`, legend: 'rejects' }],
  },
  {
    title: 'Deletes held back',
    kind: 'stat',
    unit: 'none',
    width: 6,
    targets: [{ expr: `sum(content_sync_held_deletes${OF_SOURCE})`, legend: 'held' }],
  },
  {
    title: 'Live rows',
    kind: 'stat',
    unit: 'short',
    width: 6,
    targets: [{ expr: `sum(content_sync_live_rows${OF_SOURCE})`, legend: 'rows' }],
  },
  {
    title: 'Time since the last success',
    kind: 'timeseries',
    unit: 's',
    width: 12,
    targets: [{ expr: `content_sync_freshness_seconds${OF_SOURCE}`, legend: BY_RESOURCE }],
  },
  {
    title: 'Rows written',
    kind: 'timeseries',
    unit: 'short',
    width: 12,
    targets: [
      {
        expr: 'sum by (source, result) (increase(content_sync_rows_total{source=~"$source", result=~"inserted|updated|deleted"}[$__rate_interval]))',
        legend: '{{source}} {{result}}',
      },
    ],
  },
  {
    title: 'Requests by outcome',
    kind: 'timeseries',
    unit: 'reqps',
    width: 12,
    targets: [
      {
        expr: `sum by (source, outcome) (rate(content_sync_requests_total${OF_SOURCE}[$__rate_interval]))`,
        legend: '{{source}} {{outcome}}',
      },
      { expr: `content_sync_limit_requests_per_second${OF_SOURCE}`, legend: '{{source}} limit' },
    ],
  },
  {
    title: 'Request duration (95 %)',
    kind: 'timeseries',
    unit: 's',
    width: 12,
    targets: [
      {
        expr: `histogram_quantile(0.95, sum by (source, le) (rate(content_sync_request_duration_seconds_bucket${OF_SOURCE}[$__rate_interval])))`,
        legend: '{{source}}',
      },
    ],
  },
  {
    title: 'From webhook to row (95 %)',
    kind: 'timeseries',
    unit: 's',
    width: 12,
    targets: [
      {
        expr: `histogram_quantile(0.95, sum by (source, le) (rate(content_sync_webhook_delay_seconds_bucket${OF_SOURCE}[$__rate_interval])))`,
        legend: '{{source}}',
      },
    ],
  },
  {
    title: 'Webhooks by what became of them',
    kind: 'timeseries',
    unit: 'reqps',
    width: 12,
    targets: [
      {
        expr: `sum by (source, result) (rate(content_sync_webhooks_total${OF_SOURCE}[$__rate_interval]))`,
        legend: '{{source}} {{result}}',
      },
      { expr: `content_sync_inbox_waiting${OF_SOURCE}`, legend: '{{source}} waiting' },
    ],
  },
  {
    title: 'Size of the warehouse',
    kind: 'timeseries',
    unit: 'bytes',
    width: 12,
    targets: [
      { expr: `content_sync_warehouse_bytes${OF_SOURCE}`, legend: '{{source}}' },
      { expr: `content_sync_warehouse_wal_bytes${OF_SOURCE}`, legend: '{{source}} log' },
    ],
  },
  {
    title: 'Memory and CPU of the processes',
    kind: 'timeseries',
    unit: 'bytes',
    width: 12,
    targets: [
      { expr: 'process_resident_memory_bytes{job=~"content-sync.*"}', legend: '{{instance}}' },
      { expr: 'rate(process_cpu_seconds_total{job=~"content-sync.*"}[$__rate_interval])', legend: '{{instance}} CPU' },
    ],
  },
];

const HEIGHT = 8;
const WIDTH = 24;
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

/** A dashboard as Grafana imports it. */
export function dashboard(): object {
  return {
    uid: 'content-sync',
    title: 'content-sync',
    tags: ['content-sync'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    timezone: 'browser',
    refresh: '30s',
    time: { from: 'now-24h', to: 'now' },
    templating: { list: [DATASOURCE_VARIABLE, SOURCE_VARIABLE] },
    panels: placed(),
  };
}

const DATASOURCE_VARIABLE = { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' };
const SOURCE_VARIABLE = {
  name: 'source',
  label: 'Source',
  type: 'query',
  datasource: DATASOURCE,
  query: { query: 'label_values(content_sync_warehouse_up, source)', refId: 'sources' },
  refresh: 2,
  includeAll: true,
  multi: true,
  allValue: '.*',
  current: { text: 'All', value: '$__all' },
};

/** Side by side as far as they fit. */
function placed(): object[] {
  let [x, y] = [0, 0];
  return PANELS.map(({ title, kind, unit, width, targets }, at) => {
    if (x + width > WIDTH) [x, y] = [0, y + HEIGHT];
    const gridPos = { h: HEIGHT, w: width, x, y };
    x += width;
    return {
      id: at + 1,
      title,
      type: kind,
      datasource: DATASOURCE,
      gridPos,
      fieldConfig: { defaults: { unit }, overrides: [] },
      targets: targets.map(({ expr, legend }, index) => {
        return { refId: String.fromCodePoint(65 + index), datasource: DATASOURCE, expr, legendFormat: legend };
      }),
    };
  });
}
