package engine

import (
	"bytes"
	"sort"

	"weir/storage"
)

// PutRecord writes a named record (topics, coordinators, settings: bytes that belong to
// the bridge) in the shard of slotKey's slot. With the same key as a stream's, record
// and stream go into the same round, unless another turn's commit closes it between the
// two verbs: whoever writes both must bear a crash in between.
func (t *Turn) PutRecord(slotKey []byte, space RecordSpace, name, value []byte) error {
	return t.record(slotKey, func(s *shard, b storage.Batch) error {
		return b.Set(storage.RecordKey(s.id, space, name), value)
	})
}

// DeleteRecord removes a record.
func (t *Turn) DeleteRecord(slotKey []byte, space RecordSpace, name []byte) error {
	return t.record(slotKey, func(s *shard, b storage.Batch) error {
		return b.Delete(storage.RecordKey(s.id, space, name))
	})
}

func (t *Turn) record(slotKey []byte, put func(*shard, storage.Batch) error) error {
	s := t.e.shardOfKey(slotKey)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := t.e.refuse(); err != nil {
		return err
	}
	r := s.round()
	t.join(r)
	return put(s, r.batch)
}

// EachRecord calls fn for every committed record of a space, in byte order of the
// name. The slices are fn's to keep. Used at start.
func (e *Engine) EachRecord(space RecordSpace, fn func(name, value []byte) error) error {
	type record struct{ name, value []byte }
	var all []record
	for _, s := range e.shards {
		v, err := s.st.View()
		if err != nil {
			return err
		}
		lower, upper := storage.RecordsRange(s.id, space)
		it, err := v.Scan(lower, upper)
		if err != nil {
			v.Close()
			return err
		}
		for ok := it.SeekGE(nil); ok; ok = it.Next() {
			_, name, valid := storage.ParseRecordKey(it.Key())
			var val []byte
			if val, err = it.Value(); err != nil || !valid {
				break
			}
			all = append(all, record{bytes.Clone(name), bytes.Clone(val)})
		}
		if err == nil {
			err = it.Error()
		}
		it.Close()
		v.Close()
		if err != nil {
			return err
		}
	}
	sort.Slice(all, func(i, j int) bool { return bytes.Compare(all[i].name, all[j].name) < 0 })
	for _, r := range all {
		if err := fn(r.name, r.value); err != nil {
			return err
		}
	}
	return nil
}

// EachStream calls fn for every stream that exists. Used at start (orphans) and by checks.
func (e *Engine) EachStream(fn func(no StreamNo, key []byte) error) error {
	for _, s := range e.shards {
		v, err := s.st.View()
		if err != nil {
			return err
		}
		err = eachStreamRow(s.id, v, func(no StreamNo, it storage.Iterator) error {
			val, err := it.Value()
			if err != nil {
				return err
			}
			row, err := storage.ParseStreamRow(val)
			if err != nil {
				return err
			}
			return fn(no, row.Key)
		})
		v.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
