// The series of earlier runs that the log holds: each can be finished (from the log to its images) or exported.

import { address, fetchJson, imagePath, imageQuery, postJson } from './api.js';
import { byId, element, setText, toast } from './dom.js';
import { count } from './format.js';

const LOOK_AGAIN_MILLIS = 2000;

/** One line of what there is: number of the detector, how much of it is durable. */
export function recordedText({ label, channel, state, frames }) {
  const of = frames.expected === null ? '' : ` / ${count(frames.expected)}`;
  return `${label}${channel === null ? '' : ` ${channel}`}\n${state}\n${count(frames.durable)}${of}`;
}

/** What a job says of itself in a word or two; nothing where none was asked for. */
export function jobText(name, job) {
  if (!job) return '';
  return { waiting: `${name}: waits`, running: `${name}: at work`, done: `${name}: done`, failed: `${name} failed` }[job.state];
}

/** True while a job of the list is under way. */
export function isBusy(list) {
  const under = (job) => job !== null && (job.state === 'waiting' || job.state === 'running');
  return list.some(({ finish, export: set }) => under(finish) || under(set));
}

/** The list; `onChange()` asks for it again. */
export class RecordedList {
  #timer = null;
  #shown = '';

  constructor(onChange) {
    this.onChange = onChange;
  }

  /** Shows what the API lists as recorded; null where nothing is recorded. */
  show(recorded) {
    const list = recorded?.series ?? [];
    byId('recorded').hidden = list.length === 0;
    setText(byId('recorded-count'), `in the log (${count(list.length)})`);
    clearTimeout(this.#timer);
    if (isBusy(list)) this.#timer = setTimeout(this.onChange, LOOK_AGAIN_MILLIS);
    const text = JSON.stringify(list);
    if (text === this.#shown) return;
    this.#shown = text;
    byId('recorded-list').replaceChildren(...list.map((entry) => this.#row(entry)));
  }

  #row(entry) {
    const words = element('span', {}, recordedText(entry));
    words.style.whiteSpace = 'pre-line';
    words.title = `begun ${entry.started_utc}${entry.folder ? `, results in ${entry.folder}` : ''}`;
    const parts = [words];
    if (entry.images.includes('bf')) {
      parts.push(element('a', { href: address(imagePath(entry.number, entry.images.includes('phase') ? 'phase' : 'bf'), imageQuery('png')), target: '_blank' }, 'picture'));
    }
    parts.push(this.#button(entry, 'finish', 'compute images and phase from the log'), this.#button(entry, 'export', 'write it as DECTRIS files'));
    for (const name of ['finish', 'export']) {
      const job = entry[name];
      const said = element('span', { className: job?.state === 'failed' ? 'bad' : 'muted' }, jobText(name, job));
      said.title = job?.problem ?? job?.path ?? '';
      if (job) parts.push(said);
    }
    return element('li', {}, ...parts);
  }

  #button(entry, name, title) {
    const button = element('button', { title, 'aria-label': `${name} series ${entry.label}` }, name);
    button.disabled = ['waiting', 'running'].includes(entry[name]?.state);
    button.onclick = async () => {
      button.disabled = true;
      try {
        await postJson(`/api/v1/series/${entry.number}/${name}`);
      } catch (error) {
        toast(`${name} of series ${entry.label}: ${error.message}`);
      }
      this.onChange();
    };
    return button;
  }
}
