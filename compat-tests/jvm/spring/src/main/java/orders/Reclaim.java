package orders;

import java.util.LinkedHashMap;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.data.domain.Range;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.PendingMessage;
import org.springframework.data.redis.connection.stream.StreamRecords;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/** Finds entries whose consumer has died, takes them over, and puts aside what was delivered too often. */
@Component
class Reclaim {
    private static final Logger log = LoggerFactory.getLogger(Reclaim.class);
    private final StringRedisTemplate redis;
    private final OrdersProperties names;
    private final Billing billing;

    Reclaim(StringRedisTemplate redis, OrdersProperties names, Billing billing) {
        this.redis = redis;
        this.names = names;
        this.billing = billing;
    }

    @Scheduled(fixedDelay = 300)
    void takeOver() {
        var ops = redis.<String, String>opsForStream();
        var summary = ops.pending(names.stream(), names.group());
        if (summary == null || summary.getTotalPendingMessages() == 0) {
            return;
        }
        for (PendingMessage p : ops.pending(names.stream(), names.group(), Range.unbounded(), 100)) {
            if (p.getElapsedTimeSinceLastDelivery().compareTo(names.minIdle()) < 0) {
                continue;
            }
            for (MapRecord<String, String, String> order : ops.claim(names.stream(), names.group(), names.consumer(),
                    names.minIdle(), p.getId())) {
                settle(order, p);
            }
        }
    }

    private void settle(MapRecord<String, String, String> order, PendingMessage p) {
        try {
            if (p.getTotalDeliveryCount() >= names.maxDeliveries()) {
                Map<String, String> letter = new LinkedHashMap<>(order.getValue());
                letter.put("origin", order.getId().getValue());
                letter.put("deliveries", String.valueOf(p.getTotalDeliveryCount()));
                letter.put("last-consumer", p.getConsumerName());
                redis.opsForStream().add(StreamRecords.newRecord().in(names.deadLetters()).ofMap(letter));
            } else {
                billing.bill(order, "reclaim");
            }
            redis.opsForStream().acknowledge(names.group(), order);
        } catch (IllegalStateException e) {
            log.warn("reclaim: {}", e.getMessage());
        }
    }
}
