'use strict';
// Data of all functions by column. A column that is shorter than `name` goes on with its last value.
const $ = (id) => document.getElementById(id);
const D = JSON.parse($('data').textContent);
const N = D.name.length;
for (const column of Object.values(D.columns)) {
  for (let i = column.length, last = column[i - 1] ?? null; i < N; i += 1) column.push(last);
}
Object.assign(D, D.columns);
delete D.columns;
const LEVELS = ['l1', 'l2', 'l3', 'dram'];

// Numbers as the reports print them.
const digits = (v) => v === 0 ? '0' : v >= 9999.5 ? v.toExponential(2) : v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v >= 0.9995 ? v.toFixed(2)
  : v >= 0.001 ? v.toPrecision(3) : v.toExponential(2);
const si = (v, unit) => {
  if (v === null) return null;
  const all = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];
  const p = all.find((x) => Math.abs(v) * 1.0005 >= x[0]) || all[8];
  return v === 0 ? '0 ' + unit : digits(v / p[0]) + ' ' + p[1] + unit;
};
const percent = (v) => v === null ? null : (Math.abs(v) < 0.0995 ? (100 * v).toFixed(1) : (100 * v).toFixed(0)) + ' %';

const unit = (i) => ({ int: 'op', byte: 'B' })[D.axis[i]] || 'FLOP';
const outer = (i) => D.dram[i] ?? D.l3[i] ?? D.l2[i] ?? D.l1[i];
const cls = (i) => D.classes[D.class[i]];
const element = (tag, text, className) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
};
